// A ps server and stubs of its services, for tests over the wire.
#ifndef MILLRACE_PS_PS_SERVER_FIXTURE_H_
#define MILLRACE_PS_PS_SERVER_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/net/channel.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/ps_server.h"
#include "ps/ps_test_util.h"

namespace millrace::ps {

// The stubs' calls are as the service says; where no generation is named it is 1.
class PsServerTest : public ::testing::Test {
 protected:
  PsServerTest() : data_dir_(millrace::testing::NewTestDirectory("data")) { Start(); }

  void Start() {
    PsServerOptions options;
    options.data_dir = data_dir_;
    absl::StatusOr<std::unique_ptr<PsServer>> server = PsServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = CreateChannel(server_->address());
    data_ = ParameterServer::NewStub(channel_);
    admin_ = ParameterServerAdmin::NewStub(channel_);
  }

  void Restart() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
    Start();
  }

  grpc::Status Create(const ShardSpec& spec, uint64_t generation = 1) {
    CreateShardRequest request;
    *request.mutable_spec() = spec;
    request.set_generation(generation);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->CreateShard(&context, request, &status);
  }

  ShardStatus Get(const ShardSpec& spec) {
    GetShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    grpc::ClientContext context;
    ShardStatus status;
    EXPECT_TRUE(admin_->GetShard(&context, request, &status).ok());
    return status;
  }

  grpc::Status SetGeneration(const ShardSpec& spec, uint64_t generation) {
    SetGenerationRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(generation);
    grpc::ClientContext context;
    ShardStatus status;
    return admin_->SetGeneration(&context, request, &status);
  }

  grpc::Status Pin(const ShardSpec& spec, const std::string& cut_id, ShardStatus* status) {
    PinCutRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(1);
    request.set_cut_id(cut_id);
    grpc::ClientContext context;
    return admin_->PinCut(&context, request, status);
  }

  grpc::Status Drop(const ShardSpec& spec, uint64_t generation = 1) {
    DropShardRequest request;
    request.set_job_id(spec.job_id());
    request.set_shard(spec.shard());
    request.set_generation(generation);
    grpc::ClientContext context;
    DropShardResponse response;
    return admin_->DropShard(&context, request, &response);
  }

  const std::string data_dir_;
  std::unique_ptr<PsServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterServer::Stub> data_;
  std::unique_ptr<ParameterServerAdmin::Stub> admin_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_PS_SERVER_FIXTURE_H_
