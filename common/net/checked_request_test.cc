#include "common/net/checked_request.h"

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"

namespace millrace {
namespace {

// Says which shard was asked for.
class EchoService final : public ParameterServerAdmin::Service {
 public:
  explicit EchoService(absl::Duration patience) {
    MarkMethodStreamed(kGetShard, NewCheckedHandler<1000>(this, &EchoService::Echo, patience));
  }

 private:
  // Its place in the service.
  static constexpr int kGetShard = 1;

  grpc::Status Echo(grpc::ServerContext* /*context*/, const GetShardRequest* request,
                    ShardStatus* status) {
    status->set_shard(request->shard());
    return grpc::Status::OK;
  }
};

TEST(CheckedRequestTest, CallThatBringsNoRequestIsEnded) {
  EchoService service(/*patience=*/absl::Milliseconds(10));
  const auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  grpc::GenericStub stub(CreateChannel((*server)->address()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/millrace.ParameterServerAdmin/GetShard", &queue);
  call->StartCall(nullptr);
  void* tag;
  bool ok;
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED) << status.error_message();
}

}  // namespace
}  // namespace millrace
