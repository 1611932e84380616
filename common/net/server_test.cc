#include "common/net/server.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/net/channel.h"
#include "common/warning_count.h"
#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.grpc.pb.h"
#include "testing/spin/spin_until.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Sends one message, whatever its type, and returns the answer's bytes.
std::pair<grpc::Status, std::string> Call(const std::shared_ptr<grpc::Channel>& channel,
                                          const std::string& method, const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  grpc::CompletionQueue queue;
  grpc::Slice slice(request);
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (status.ok()) answer.Dump(&slices).ok();
  std::string bytes;
  for (const grpc::Slice& part : slices) bytes.append(part.begin(), part.end());
  return {status, bytes};
}

std::pair<grpc::Status, std::string> Call(const std::string& address, const std::string& method,
                                          const std::string& request) {
  return Call(CreateChannel(address), method, request);
}

// Answers with a message of the size that the request names as its shard.
class SizedAnswers final : public ParameterServerAdmin::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetShard(grpc::CallbackServerContext* context,
                                     const GetShardRequest* request, ShardStatus* status) override {
    status->set_job_id(std::string(request->shard(), 'x'));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  // Is never done.
  grpc::ServerUnaryReactor* FlushCut(grpc::CallbackServerContext*, const FlushCutRequest*,
                                     ShardStatus*) override {
    class Endless final : public grpc::ServerUnaryReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new Endless;
  }

  // Is done when the test says so.
  grpc::ServerUnaryReactor* PinCut(grpc::CallbackServerContext* context, const PinCutRequest*,
                                   ShardStatus*) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    pinning.set_value(reactor);
    return reactor;
  }
  std::promise<grpc::ServerUnaryReactor*> pinning;
};

std::unique_ptr<RpcServer> StartServer(const std::string& listen = "127.0.0.1:0",
                                       const std::vector<grpc::Service*>& services = {}) {
  auto server = RpcServer::Start({.listen = listen}, services);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(RpcServerTest, AddressNamesTheRealPort) {
  const auto server = StartServer("127.0.0.1:0");
  EXPECT_THAT(server->address(), ::testing::StartsWith("127.0.0.1:"));
  EXPECT_THAT(server->address(), ::testing::Not(::testing::EndsWith(":0")));
}

TEST(RpcServerTest, HealthCheckSaysServing) {
  const auto server = StartServer();
  const auto [status, answer] = Call(server->address(), "/grpc.health.v1.Health/Check", "");
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answer, std::string("\x08\x01", 2));  // status: SERVING
}

TEST(RpcServerTest, ReflectionListsTheServices) {
  SizedAnswers service;
  const auto server = StartServer("127.0.0.1:0", {&service});
  const auto [status, answer] =
      Call(server->address(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
           std::string("\x3a\x01*", 3));  // list_services: "*"
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(answer, HasSubstr("millrace.ParameterServerAdmin"));
}

TEST(RpcServerTest, PortInUseIsRefusedWithWhatToDo) {
  const auto server = StartServer();
  const auto other = RpcServer::Start({.listen = server->address()}, {});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(other.status().ToString(), HasSubstr(server->address()));
  EXPECT_THAT(other.status().ToString(), HasSubstr("in use; stop the process that holds it"));
}

TEST(RpcServerTest, NameOneOfWhoseAddressesIsInUseIsRefused) {
  const auto server = StartServer("127.0.0.1:0");
  const std::string port = server->address().substr(server->address().rfind(':'));
  const auto other = RpcServer::Start({.listen = "localhost" + port}, {});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable) << other.status();
}

TEST(RpcServerTest, PortIsFreeAgainAfterShutdown) {
  auto server = StartServer();
  const std::string address = server->address();
  server->Shutdown(absl::ZeroDuration());
  server.reset();
  EXPECT_EQ(StartServer(address)->address(), address);
}

TEST(RpcServerTest, AddressThatOthersCanReachMustBeAllowed) {
  const auto refused = RpcServer::Start({.listen = "0.0.0.0:0"}, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("are not secured"));
  const auto allowed = RpcServer::Start({.listen = "0.0.0.0:0", .allow_insecure_remote = true}, {});
  EXPECT_TRUE(allowed.ok()) << allowed.status();
}

TEST(RpcServerTest, MalformedAddressIsRefused) {
  EXPECT_EQ(RpcServer::Start({.listen = "7070"}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RpcServerTest, AddressOfAnotherMachineIsRefused) {
  // 192.0.2.0/24 is reserved for documentation: no machine has it.
  const auto server =
      RpcServer::Start({.listen = "192.0.2.1:7070", .allow_insecure_remote = true}, {});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(server.status().ToString(), HasSubstr("192.0.2.1:7070"));
}

TEST(RpcServerTest, MessagesUpToTheLimitPassAndLargerOnesDoNot) {
  SizedAnswers service;
  const auto server = StartServer("127.0.0.1:0", {&service});
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(server->address()));
  GetShardRequest request;
  ShardStatus answer;
  grpc::ClientContext allowed;
  request.set_shard(kMaxMessageBytes - 100);
  const grpc::Status status = stub->GetShard(&allowed, request, &answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answer.job_id().size(), request.shard());
  grpc::ClientContext refused;
  request.set_shard(kMaxMessageBytes);
  EXPECT_EQ(stub->GetShard(&refused, request, &answer).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// A megabyte was unpacked to a gigabyte before its size was looked at.
TEST(RpcServerTest, CompressedMessagesAreRefusedAsTheyAre) {
  SizedAnswers service;
  const auto server = StartServer("127.0.0.1:0", {&service});
  grpc::ChannelArguments args;
  args.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  const auto channel =
      grpc::CreateCustomChannel(server->address(), grpc::InsecureChannelCredentials(), args);
  const std::string zeros(kMaxMessageBytes + 1, '\0');
  const grpc::Status status = Call(channel, "/millrace.ParameterServerAdmin/GetShard", zeros).first;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("gzip"));
}

TEST(RpcServerTest, InProcessChannelReachesTheServer) {
  SizedAnswers service;
  const auto server = StartServer("127.0.0.1:0", {&service});
  const auto stub = ParameterServerAdmin::NewStub(server->InProcessChannel());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  GetShardRequest request;
  request.set_shard(5 << 20);  // More than gRPC lets pass by default.
  ShardStatus answer;
  const grpc::Status status = stub->GetShard(&context, request, &answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answer.job_id().size(), 5u << 20);
}

// Calls on a channel whose server had shut down ended the process.
TEST(RpcServerTest, InProcessCallersAreServedUntilTheyHaveLetGo) {
  SizedAnswers service;
  const auto server = StartServer("127.0.0.1:0", {&service});
  EXPECT_FALSE(server->HasInProcessCallers());
  auto stub = ParameterServerAdmin::NewStub(server->InProcessChannel());
  auto context = std::make_unique<grpc::ClientContext>();
  ShardStatus answer;
  ASSERT_TRUE(stub->GetShard(context.get(), GetShardRequest(), &answer).ok());
  auto shut_down =
      std::async(std::launch::async, [&server] { server->Shutdown(absl::ZeroDuration()); });
  for (int i = 0; i < 10; ++i) {
    grpc::ClientContext other;
    EXPECT_TRUE(stub->GetShard(&other, GetShardRequest(), &answer).ok());
  }
  stub.reset();
  EXPECT_TRUE(server->HasInProcessCallers()) << "there is the first call's context";
  context.reset();
  EXPECT_FALSE(server->HasInProcessCallers());
  shut_down.get();
}

TEST(RpcServerTest, ServerThatIsDestroyedBeforeItsCallersServesThemOn) {
  static auto* const service = new SizedAnswers();
  auto server = StartServer("127.0.0.1:0", {service});
  const auto stub = ParameterServerAdmin::NewStub(server->InProcessChannel());
  server.reset();
  grpc::ClientContext context;
  ShardStatus answer;
  EXPECT_TRUE(stub->GetShard(&context, GetShardRequest(), &answer).ok());
}

TEST(RpcServerTest, ShutdownCancelsCallsThatDoNotEnd) {
  SizedAnswers service;
  const auto server = StartServer("127.0.0.1:0", {&service});
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(server->address()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub->AsyncFlushCut(&context, FlushCutRequest(), &queue);
  ShardStatus answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  server->Shutdown(absl::ZeroDuration());
  void* tag;
  bool ok;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_FALSE(status.ok());
}

// It waited for ever without a word.
class StoppingServerTest : public ::testing::Test {
 protected:
  // Shuts it down, and lets minutes pass until the log says that it waits for `whom`; then
  // whoever that is ends by `end`.
  void StopAndAwait(const std::string& whom, const std::function<void()>& end) {
    const WarningCount told(
        absl::StrCat("the server at ", server_->address(), ", which stops, waits for ", whom));
    auto stopped =
        std::async(std::launch::async, [this] { server_->Shutdown(absl::ZeroDuration()); });
    SpinUntil("a warning that names whom it waits for", [&] {
      clock_.Advance(absl::Seconds(30));
      return told.count() >= 2;
    });
    EXPECT_EQ(stopped.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    end();
    stopped.get();
  }

  SimulatedClock clock_;
  SizedAnswers service_;
  const std::unique_ptr<RpcServer> server_ = *RpcServer::Start({.clock = &clock_}, {&service_});
};

TEST_F(StoppingServerTest, SaysThatItWaitsForCallersInItsProcess) {
  auto channel = server_->InProcessChannel();
  StopAndAwait("callers in this process to let go of its channel", [&] { channel.reset(); });
}

TEST_F(StoppingServerTest, SaysThatItWaitsForHandlers) {
  const auto stub = ParameterServerAdmin::NewStub(CreateChannel(server_->address()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub->AsyncPinCut(&context, PinCutRequest(), &queue);
  ShardStatus answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  grpc::ServerUnaryReactor* const pinning = service_.pinning.get_future().get();
  StopAndAwait("calls that it still answers to end",
               [&] { pinning->Finish(grpc::Status::CANCELLED); });
  void* tag;
  bool ok;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace millrace
