#include "common/net/self_check.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/net/server.h"
#include "common/warning_count.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr absl::Duration kLongPatience = absl::Minutes(1);

// Answers calls, whatever they are: with errors, but for the first one and each third after it,
// until `well_until`.
class Flaky final : public grpc::CallbackGenericService {
 public:
  explicit Flaky(int well_until) : well_until_(well_until) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    const int call = ++calls_;
    return new Answer(call % 3 == 1 && call <= well_until_);
  }
  int calls() const { return calls_; }

 private:
  class Answer final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Answer(bool ok) {
      if (ok) {
        StartWriteAndFinish(&empty_, {}, grpc::Status::OK);
      } else {
        Finish(grpc::Status(grpc::StatusCode::INTERNAL, "flaky"));
      }
    }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer empty_{nullptr, 0};
  };

  const int well_until_;
  std::atomic<int> calls_{0};
};

TEST(SelfCheckTest, WhoDoesNotReachItselfForLongIsBroken) {
  Flaky service(/*well_until=*/31);
  // Its own one would be asked, where a server of ours has been in this process.
  const bool had_health = grpc::DefaultHealthCheckServiceEnabled();
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::EnableDefaultHealthCheckService(had_health);
  std::promise<int> calls;
  const SelfCheck check({.period = absl::Milliseconds(1),
                         .patience = kLongPatience,
                         .tries = 3,
                         .on_broken =
                             [&](const absl::Status& why) {
                               EXPECT_EQ(why.message(), "flaky");
                               calls.set_value(service.calls());
                             },
                         .address = absl::StrCat("127.0.0.1:", port)});
  std::future<int> when_broken = calls.get_future();
  ASSERT_EQ(when_broken.wait_for(absl::ToChronoSeconds(kLongPatience)), std::future_status::ready);
  EXPECT_EQ(when_broken.get(), 34);
}

// A process was ended that nothing was wrong with: nobody knew the name that its server listened
// on.
TEST(SelfCheckTest, NothingFollowsWhereNobodyHasEverAnswered) {
  const auto server = RpcServer::Start({}, {}).value();
  const std::string address = server->address();
  server->Shutdown(absl::ZeroDuration());
  const WarningCount warnings("gRPC is not checked");
  std::atomic<bool> broken{false};
  {
    const SelfCheck check({.period = absl::Milliseconds(1),
                           .patience = kLongPatience,
                           .tries = 1,
                           .on_broken = [&](const absl::Status&) { broken = true; },
                           .address = address});
    while (warnings.count() == 0) std::this_thread::yield();
  }
  EXPECT_FALSE(broken);
}

TEST(AskHealthTest, ServerAnswersUntilItIsShutDown) {
  const auto server = RpcServer::Start({}, {}).value();
  EXPECT_EQ(AskHealth(server->address(), kLongPatience), absl::OkStatus());
  server->Shutdown(absl::ZeroDuration());
  EXPECT_TRUE(absl::IsUnavailable(AskHealth(server->address(), kLongPatience)));
}

TEST(AskHealthTest, ListenerThatSaysNothingIsGivenUp) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string name = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  EXPECT_TRUE(absl::IsDeadlineExceeded(AskHealth(name, absl::Milliseconds(10))));
  close(listener);
}

}  // namespace
}  // namespace millrace
