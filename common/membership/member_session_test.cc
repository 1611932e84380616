#include "common/membership/member_session.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/membership/fake_coordinator.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"

namespace millrace {
namespace {

using ::millrace::testing::FakeCoordinator;
using ::testing::HasSubstr;

constexpr absl::Duration kGrace = absl::Minutes(1);

MemberMessage StepMessage(uint64_t step) {
  MemberMessage message;
  message.mutable_step_result()->set_step(step);
  return message;
}

MemberMessage ReturnedMessage() {
  MemberMessage message;
  message.mutable_lease_returned();
  return message;
}

CoordinatorMessage LeaseMessage(uint64_t lease_id) {
  CoordinatorMessage message;
  message.mutable_lease()->set_lease_id(lease_id);
  return message;
}

// Counts welcomes and remembers the leases.
class FakeListener final : public MemberListener {
 public:
  void Welcomed() override {
    Note([this] { ++welcomes_; });
  }

  void Received(CoordinatorMessage message) override {
    Note([&] { newest_lease_ = message.lease().lease_id(); });
  }

  bool OutlivesItsStream(const MemberMessage& message) override {
    return message.has_step_result();
  }

  void Refused(const absl::Status& reason) override {
    Note([&] { refusal_ = reason; });
  }

  absl::Status refusal() {
    MutexLock lock(&mutex_);
    return refusal_;
  }

  void AwaitWelcomes(int count) {
    MutexLock lock(&mutex_);
    while (welcomes_ < count) {
      ASSERT_FALSE(changed_.WaitWithTimeout(&mutex_, absl::Minutes(1))) << "no such welcome came";
    }
  }

  void AwaitLease(uint64_t lease_id) {
    MutexLock lock(&mutex_);
    while (newest_lease_ != lease_id) {
      ASSERT_FALSE(changed_.WaitWithTimeout(&mutex_, absl::Minutes(1))) << "no such lease came";
    }
  }

 private:
  template <typename Change>
  void Note(Change change) {
    MutexLock lock(&mutex_);
    change();
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  int welcomes_ = 0;
  uint64_t newest_lease_ = 0;
  absl::Status refusal_;
};

class MemberSessionTest : public ::testing::Test {
 protected:
  // A session that dials again at once.
  void Start() {
    MemberSessionOptions options;
    options.coordinator_address = coordinator_.address();
    options.name = "worker-3";
    options.registration = [this] {
      MemberMessage message;
      message.mutable_register_worker()->set_name("worker-3");
      message.mutable_register_worker()->set_incarnation(++registrations_);
      return message;
    };
    options.clock = clock_;
    options.first_backoff = absl::Milliseconds(1);
    options.last_backoff = absl::Milliseconds(20);
    options.welcome_timeout = welcome_timeout_;
    session_ = std::make_unique<MemberSession>(options, &listener_);
    session_->Start();
  }

  void StartWelcome() {
    Start();
    coordinator_.AwaitRegistration();
    coordinator_.SendWelcome();
    coordinator_.Send(LeaseMessage(99));  // Comes when the listener's welcome has returned.
    listener_.AwaitLease(99);
  }

  Clock* clock_ = Clock::Real();
  absl::Duration welcome_timeout_ = absl::Minutes(1);
  FakeCoordinator coordinator_;
  FakeListener listener_;
  uint64_t registrations_ = 0;              // Of the session's thread.
  std::unique_ptr<MemberSession> session_;  // Last: ends first.
};

TEST_F(MemberSessionTest, RegistersAndCarriesMessagesBothWays) {
  Start();
  EXPECT_EQ(coordinator_.AwaitRegistration().name(), "worker-3");
  coordinator_.SendWelcome();
  coordinator_.Send(LeaseMessage(5));
  listener_.AwaitLease(5);
  session_->Send(StepMessage(17));
  session_->Send(StepMessage(18));
  EXPECT_EQ(coordinator_.Next().step_result().step(), 17);
  EXPECT_EQ(coordinator_.Next().step_result().step(), 18);
}

TEST_F(MemberSessionTest, NothingIsSentBeforeTheWelcome) {
  Start();
  coordinator_.AwaitRegistration();
  session_->Send(StepMessage(1));
  coordinator_.SendWelcome();
  EXPECT_EQ(coordinator_.Next().step_result().step(), 1);
}

TEST_F(MemberSessionTest, HeartbeatsAtThePeriodOfTheWelcome) {
  SimulatedClock clock;
  clock_ = &clock;
  Start();
  coordinator_.AwaitRegistration();
  coordinator_.SendWelcome(absl::Seconds(3));
  listener_.AwaitWelcomes(1);
  for (int i = 0; i < 3; ++i) {
    clock.Advance(absl::Seconds(3));
    EXPECT_TRUE(coordinator_.Next().has_heartbeat());
  }
  session_.reset();  // Before the clock.
}

TEST_F(MemberSessionTest, DialsAgainWhenTheStreamBreaks) {
  StartWelcome();
  coordinator_.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stops"));
  EXPECT_EQ(coordinator_.AwaitRegistration().incarnation(), 2);  // Made anew.
  coordinator_.SendWelcome();
  listener_.AwaitWelcomes(2);
  coordinator_.Send(LeaseMessage(6));
  listener_.AwaitLease(6);
}

TEST_F(MemberSessionTest, StreamThatHadLastedIsDialledAgainAtOnce) {
  SimulatedClock clock;
  clock_ = &clock;
  StartWelcome();
  clock.Advance(absl::Seconds(1));
  coordinator_.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stops"));
  EXPECT_EQ(coordinator_.AwaitRegistration().incarnation(), 2) << "while the clock stands still";
  session_.reset();  // Before the clock.
}

TEST_F(MemberSessionTest, WaitsForACoordinatorThatIsAway) {
  StartWelcome();
  coordinator_.Shutdown();
  coordinator_.Restart();
  coordinator_.AwaitRegistration();
  coordinator_.SendWelcome();
  listener_.AwaitWelcomes(2);
}

TEST_F(MemberSessionTest, DialsAgainWhileItsNameIsTaken) {
  Start();
  coordinator_.AwaitRegistration();
  coordinator_.End(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "a live member has that name"));
  coordinator_.AwaitRegistration();
}

TEST_F(MemberSessionTest, GivesUpAStreamOnWhichNoWelcomeComes) {
  SimulatedClock clock;
  clock_ = &clock;
  welcome_timeout_ = absl::Seconds(10);
  Start();
  coordinator_.AwaitRegistration();
  clock.Advance(absl::Seconds(10));
  coordinator_.AwaitEnd();
  session_.reset();  // Before the clock.
}

TEST_F(MemberSessionTest, RefusedRegistrationEndsTheSession) {
  Start();
  coordinator_.AwaitRegistration();
  coordinator_.End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "lease_slots: 0"));
  const absl::Status end = session_->Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("refuses worker-3: lease_slots: 0"));
  EXPECT_EQ(listener_.refusal(), end);
}

// It dialled for ever, and took the place of the one that took its place.
TEST_F(MemberSessionTest, MemberOnACopyOfADirectoryEnds) {
  Start();
  coordinator_.AwaitRegistration();
  coordinator_.End(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "copies of one directory"));
  const absl::Status end = session_->Wait();
  EXPECT_TRUE(absl::IsFailedPrecondition(end)) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("refuses worker-3: copies of one directory"));
  EXPECT_EQ(listener_.refusal(), end);
}

TEST_F(MemberSessionTest, ResultsOfStepsOutliveABrokenStream) {
  Start();
  coordinator_.AwaitRegistration();
  session_->Send(StepMessage(4));
  session_->Send(ReturnedMessage());  // Void in the next session.
  session_->Send(StepMessage(5));
  coordinator_.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stops"));
  coordinator_.AwaitRegistration();
  coordinator_.SendWelcome();
  EXPECT_EQ(coordinator_.Next().step_result().step(), 4);
  EXPECT_EQ(coordinator_.Next().step_result().step(), 5);
}

TEST_F(MemberSessionTest, LeavingSendsWhatIsQueuedAndSaysGoodbye) {
  StartWelcome();
  session_->Send(StepMessage(1));
  session_->Send(ReturnedMessage());
  session_->Leave(kGrace);
  EXPECT_TRUE(coordinator_.Next().has_step_result());
  EXPECT_TRUE(coordinator_.Next().has_lease_returned());
  EXPECT_TRUE(coordinator_.Next().has_leaving());
  EXPECT_TRUE(session_->Wait().ok());
  session_->Leave(kGrace);  // Again, to no effect.
}

TEST_F(MemberSessionTest, LeavingDoesNotWaitForACoordinatorThatIsAway) {
  StartWelcome();
  coordinator_.Shutdown();
  session_->Leave(kGrace);
  EXPECT_TRUE(session_->Wait().ok());
}

TEST_F(MemberSessionTest, LeavingBeforeTheWelcomeEndsAtOnce) {
  Start();
  coordinator_.AwaitRegistration();
  session_->Leave(kGrace);
  EXPECT_TRUE(session_->Wait().ok());
}

}  // namespace
}  // namespace millrace
