// A ps server and stubs of its services, for tests over the wire.
#ifndef MILLRACE_PS_PS_SERVER_FIXTURE_H_
#define MILLRACE_PS_PS_SERVER_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/net/channel.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server.h"
#include "ps/ps_test_util.h"
#include "ps/shard_admin.h"
#include "testing/directory/test_directory.h"

namespace millrace::ps {

class PsServerTest : public ::testing::Test, protected ShardAdmin {
 protected:
  PsServerTest() : data_dir_(TestDirectory("data")) { Start(); }

  void Start() {
    PsServerOptions options;
    options.data_dir = data_dir_;
    absl::StatusOr<std::unique_ptr<PsServer>> server = PsServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = CreateChannel(server_->address());
    data_ = ParameterServer::NewStub(channel_);
    ConnectAdmin(channel_);
  }

  void Restart() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
    Start();
  }

  const std::string data_dir_;
  std::unique_ptr<PsServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterServer::Stub> data_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_PS_SERVER_FIXTURE_H_
