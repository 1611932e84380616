// Streams of a real server on loopback.
#include "coordinator/membership/membership_service.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/net/server.h"
#include "coordinator/testing/member_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

// Counts what it is told, and lets a test wait for it.
class WaitingObserver final : public MemberObserver {
 public:
  void OnPsJoined(const RegisterPs&) override {}
  void OnMembersChanged() override { Add(&changes_); }
  void OnWorkerMessage(const WorkerMember&, const MemberMessage& message) override {
    {
      MutexLock lock(&mutex_);
      in_order_ = in_order_ && message.step_result().step() == static_cast<uint64_t>(messages_);
    }
    Add(&messages_);
  }

  void AwaitChanges(int n) { Await(&changes_, n); }
  void AwaitMessages(int n) { Await(&messages_, n); }
  bool in_order() {
    MutexLock lock(&mutex_);
    return in_order_;
  }

 private:
  void Add(int* count) {
    MutexLock lock(&mutex_);
    ++*count;
    changed_.SignalAll();
  }
  void Await(const int* count, int n) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
    MutexLock lock(&mutex_);
    while (*count < n) {
      ASSERT_FALSE(Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) << *count << " of " << n;
    }
  }

  Mutex mutex_;
  CondVar changed_;
  int changes_ = 0;
  int messages_ = 0;
  bool in_order_ = true;
};

MemberMessage Registration(const std::string& name, uint64_t incarnation = 1) {
  MemberMessage message;
  message.mutable_register_worker()->set_name(name);
  message.mutable_register_worker()->set_incarnation(incarnation);
  message.mutable_register_worker()->set_lease_slots(1);
  return message;
}

class MembershipServiceTest : public testing::Test {
 protected:
  MembershipServiceTest() {
    registry_.SetObserver(&observer_);
    auto server = RpcServer::Start({}, {&service_});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  ~MembershipServiceTest() override {
    service_.Shutdown();
    server_->Shutdown(absl::Seconds(5));
  }

  std::unique_ptr<MemberConnection> Dial() {
    return std::make_unique<MemberConnection>(server_->address(), [](const CoordinatorMessage&) {});
  }

  std::unique_ptr<MemberConnection> Join(const std::string& name) {
    auto connection = Dial();
    connection->Send(Registration(name));
    connection->AwaitAnswer();
    return connection;
  }

  SimulatedClock clock_;
  WaitingObserver observer_;
  MemberRegistry registry_{absl::Seconds(2), &clock_};
  MembershipService service_{&registry_, &clock_};
  std::unique_ptr<RpcServer> server_;
};

TEST_F(MembershipServiceTest, BrokenStreamIsNoticedAndItsNameIsFree) {
  auto first = Join("w");
  auto second = Dial();
  second->Send(Registration("w", 2));
  EXPECT_EQ(second->AwaitEnd().code(), absl::StatusCode::kAlreadyExists);
  observer_.AwaitChanges(1);
  first.reset();
  observer_.AwaitChanges(2);
  first = Join("w");
  EXPECT_EQ(registry_.Workers().size(), 1u);
}

TEST_F(MembershipServiceTest, LeavingEndsTheStreamInGoodOrder) {
  auto worker = Join("w");
  MemberMessage leaving;
  leaving.mutable_leaving();
  worker->Send(leaving);
  EXPECT_TRUE(worker->AwaitEnd().ok());
  EXPECT_TRUE(registry_.Workers().empty());
}

TEST_F(MembershipServiceTest, StreamsThatBreakTheRulesEndAndOthersGoOn) {
  auto bystander = Join("bystander");
  auto unregistered = Dial();
  MemberMessage heartbeat;
  heartbeat.mutable_heartbeat();
  unregistered->Send(heartbeat);
  absl::Status end = unregistered->AwaitEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(end.message()), HasSubstr("first message"));

  auto twice = Join("twice");
  twice->Send(Registration("twice"));
  EXPECT_EQ(twice->AwaitEnd().code(), absl::StatusCode::kInvalidArgument);

  MemberMessage result;
  result.mutable_step_result()->set_step(0);
  bystander->Send(result);
  observer_.AwaitMessages(1);
}

// Messages of 16 MiB were once taken whatever they were, and kept.
TEST_F(MembershipServiceTest, LongMessagesAreRefusedButForPlansAndWhatAServerHolds) {
  auto worker = Join("w");
  MemberMessage plan;
  plan.mutable_plan_result()->mutable_plan()->set_numerics(std::string(1 << 20, 'n'));
  worker->Send(plan);
  observer_.AwaitMessages(1);
  MemberMessage result;
  result.mutable_step_result()->set_job_id(std::string(64 << 10, 'j'));
  worker->Send(result);
  const absl::Status end = worker->AwaitEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(end.message()),
              testing::AllOf(HasSubstr("step_result: 655"), HasSubstr("at most 65536")));

  MemberMessage long_name = Registration(std::string(64 << 10, 'n'));
  auto stranger = Dial();
  stranger->Send(long_name);
  EXPECT_THAT(std::string(stranger->AwaitEnd().message()), HasSubstr("register_worker: 655"));

  MemberMessage ps;
  ps.mutable_register_ps()->set_name("p");
  ps.mutable_register_ps()->set_directory_id("d");
  ps.mutable_register_ps()->set_address("127.0.0.1:7");
  ps.mutable_register_ps()->add_shards()->set_job_id(std::string(1 << 20, 'j'));
  auto server = Dial();
  server->Send(ps);
  server->AwaitAnswer();
  EXPECT_EQ(registry_.PsServers().size(), 1u);
}

TEST_F(MembershipServiceTest, HalfClosedStreamEnds) {
  auto worker = Join("w");
  worker->HalfClose();
  EXPECT_TRUE(worker->AwaitEnd().ok());
  observer_.AwaitChanges(2);
  auto silent = Dial();
  silent->HalfClose();
  EXPECT_TRUE(silent->AwaitEnd().ok());
}

TEST_F(MembershipServiceTest, SilentMembersExpire) {
  auto worker = Join("w");
  while (!registry_.Workers().empty()) clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(worker->AwaitEnd().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MembershipServiceTest, MessagesOfAMemberArriveInOrder) {
  constexpr int kMessages = 500;
  auto worker = Join("w");
  for (int i = 0; i < kMessages; ++i) {
    MemberMessage result;
    result.mutable_step_result()->set_step(i);
    worker->Send(result);
  }
  observer_.AwaitMessages(kMessages);
  EXPECT_TRUE(observer_.in_order());
}

TEST_F(MembershipServiceTest, ManyThreadsSendToAMemberThatComesAndGoes) {
  std::vector<std::thread> senders;
  for (int i = 0; i < 3; ++i) {
    senders.emplace_back([this] {
      CoordinatorMessage message;
      message.mutable_forget_job()->set_job_id("j");
      for (uint64_t n = 0; n < 3000; ++n) {
        for (const WorkerMember& worker : registry_.Workers()) registry_.Send(worker.id, message);
      }
    });
  }
  for (int i = 0; i < 20; ++i) Join(absl::StrCat("w", i % 3)).reset();
  for (std::thread& sender : senders) sender.join();
}

TEST_F(MembershipServiceTest, MemberThatDoesNotReadIsGivenUp) {
  Mutex reads;  // Held: the member does not.
  reads.Lock();
  MemberConnection worker(server_->address(),
                          [&reads](const CoordinatorMessage&) { MutexLock lock(&reads); });
  worker.Send(Registration("w"));
  observer_.AwaitChanges(1);
  const uint64_t id = registry_.Workers().front().id;
  CoordinatorMessage message;
  message.mutable_forget_job()->set_job_id(std::string(4 << 10, 'j'));
  for (int i = 0; i < 30000; ++i) registry_.Send(id, message);
  reads.Unlock();
  EXPECT_EQ(worker.AwaitEnd().code(), absl::StatusCode::kResourceExhausted);
  observer_.AwaitChanges(2);
}

TEST_F(MembershipServiceTest, ShutdownEndsStreamsWithUnavailable) {
  auto worker = Join("w");
  service_.Shutdown();
  EXPECT_EQ(worker->AwaitEnd().code(), absl::StatusCode::kUnavailable);
  auto late = Dial();
  late->Send(Registration("late"));
  EXPECT_EQ(late->AwaitEnd().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::coordinator
