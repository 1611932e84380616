#include "ps/membership.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/membership/fake_coordinator.h"
#include "common/mutex.h"
#include "common/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::FakeCoordinator;
using ::testing::HasSubstr;

class MembershipTest : public ::testing::Test {
 protected:
  MembershipOptions Options() {
    MembershipOptions options;
    options.coordinator_address = coordinator_.address();
    options.name = "ps-7";
    options.directory_id = "directory";
    options.incarnation = 5;
    options.address = "host:1";
    options.shards = [this] {
      ShardStatus status;
      status.set_job_id("job");
      status.set_version(++version_);
      return std::vector<ShardStatus>{status};
    };
    return options;
  }

  // The next message that is no heartbeat.
  MemberMessage NextNews() {
    while (true) {
      MemberMessage message = coordinator_.Next();
      if (!message.has_heartbeat()) return message;
    }
  }

  FakeCoordinator coordinator_;
  uint64_t version_ = 2;  // Of the shard; of the membership's thread.
};

TEST_F(MembershipTest, RegistersSendsHeartbeatsAndLeaves) {
  Membership membership(Options());
  const RegisterPs registration = coordinator_.AwaitMember().register_ps();
  EXPECT_EQ(registration.name(), "ps-7");
  EXPECT_EQ(registration.directory_id(), "directory");
  EXPECT_EQ(registration.incarnation(), 5);
  EXPECT_EQ(registration.address(), "host:1");
  EXPECT_EQ(registration.version(), Version());
  ASSERT_EQ(registration.shards_size(), 1);
  EXPECT_EQ(registration.shards(0).version(), 3);
  coordinator_.SendWelcome(absl::Milliseconds(10));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(coordinator_.Next().has_heartbeat());
  membership.Leave();
  EXPECT_TRUE(NextNews().has_leaving());
}

TEST_F(MembershipTest, DialsAgainWhenItIsRefusedForNowAndTellsWhatItHoldsThen) {
  Membership membership(Options());
  coordinator_.AwaitMember();
  coordinator_.End(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "the old stream lives"));
  coordinator_.AwaitMember();
  coordinator_.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping"));
  EXPECT_EQ(coordinator_.AwaitMember().register_ps().shards(0).version(), 5);
  coordinator_.SendWelcome(absl::Milliseconds(10));
  EXPECT_TRUE(coordinator_.Next().has_heartbeat());
}

TEST_F(MembershipTest, FindsTheCoordinatorWhenItComesBack) {
  Membership membership(Options());
  coordinator_.AwaitMember();
  coordinator_.SendWelcome();
  coordinator_.Shutdown();
  coordinator_.Restart();
  EXPECT_TRUE(coordinator_.AwaitMember().has_register_ps());
}

TEST_F(MembershipTest, SaysWhenItIsRefusedForGood) {
  Mutex mutex;
  CondVar changed;
  absl::optional<absl::Status> rejected;
  MembershipOptions options = Options();
  options.on_rejected = [&](const absl::Status& status) {
    MutexLock lock(&mutex);
    rejected = status;
    changed.SignalAll();
  };
  Membership membership(std::move(options));
  coordinator_.AwaitMember();
  coordinator_.End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no address"));
  MutexLock lock(&mutex);
  const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
  while (!rejected.has_value()) {
    ASSERT_FALSE(Clock::Real()->WaitUntil(&changed, &mutex, deadline)) << "it does not say so";
  }
  EXPECT_THAT(std::string(rejected->message()), HasSubstr("refuses ps-7: no address"));
}

class DrainingMembershipTest : public MembershipTest {
 protected:
  DrainingMembershipTest() {
    MembershipOptions options = Options();
    options.on_rejected = [](const absl::Status& status) { ADD_FAILURE() << status; };
    membership_ = std::make_unique<Membership>(std::move(options));
    coordinator_.AwaitMember();
  }

  void Join() {
    coordinator_.SendWelcome(absl::Milliseconds(10));
    EXPECT_TRUE(coordinator_.Next().has_heartbeat());
  }

  // Begins to, for as long as it takes, and returns when the coordinator has heard of it.
  std::future<void> Drain() {
    auto drained = std::async(std::launch::async, [this] { membership_->Drain(absl::Hours(1)); });
    EXPECT_TRUE(NextNews().has_draining());
    return drained;
  }

  std::unique_ptr<Membership> membership_;
};

TEST_F(DrainingMembershipTest, WaitsUntilItMayLeaveAndLivesMeanwhile) {
  Join();
  std::future<void> drained = Drain();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(coordinator_.Next().has_heartbeat());
  CoordinatorMessage may_leave;
  may_leave.mutable_may_leave();
  coordinator_.Send(may_leave);
  drained.get();
}

TEST_F(DrainingMembershipTest, WaitsForNobodyWhereItHasNotJoined) {
  membership_->Drain(absl::Hours(1));
}

TEST_F(DrainingMembershipTest, WaitsNoLongerThanItIsTold) {
  Join();
  membership_->Drain(absl::Milliseconds(1));
  EXPECT_TRUE(NextNews().has_draining());
}

TEST_F(DrainingMembershipTest, CoordinatorThatGoesIsNotWaitedFor) {
  Join();
  std::future<void> drained = Drain();
  coordinator_.Shutdown();
  drained.get();
}

// As coordinators do that know no such message.
TEST_F(DrainingMembershipTest, CoordinatorThatRefusesIsNotWaitedForAndThatIsNoFailure) {
  Join();
  std::future<void> drained = Drain();
  coordinator_.End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "only a worker does that"));
  drained.get();
}

TEST_F(MembershipTest, LeavesWithoutACoordinator) {
  coordinator_.Shutdown();
  Membership membership(Options());
  membership.Leave();
}

}  // namespace
}  // namespace millrace::ps
