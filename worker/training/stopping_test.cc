// What a trainer that stops does with what it has begun and what it has not.
#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/cluster.pb.h"
#include "worker/training/fakes.h"
#include "worker/training/trainer_fixture.h"

namespace millrace::worker {
namespace {

using ::testing::IsEmpty;

using StoppingTest = TrainerFixture;

// Others can have what it has not begun while its last step is computed.
TEST_F(StoppingTest, LeasesThatAreNotBegunAreReturnedAtOnceAndTheRestAfterTheLastStep) {
  world_.on_train = [this](const Batch&) {
    world_.log.Await("returned");
    return absl::OkStatus();
  };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 3));
  world_.log.Await("train 0");
  trainer_->Handle(LeaseMessage(2, 5, 6));
  std::thread stop([this] { trainer_->Stop(); });
  EXPECT_EQ(NextReturned().lease_id(), 2u);
  world_.log.Add("returned");
  EXPECT_EQ(NextStep().step(), 0u);
  const LeaseReturned rest = NextReturned();
  EXPECT_EQ(rest.lease_id(), 1u);
  EXPECT_EQ(rest.step(), 1u);
  stop.join();
  EXPECT_TRUE(said_.empty());
}

// A ps server that is away does not keep a worker for as long as a step may take.
TEST_F(StoppingTest, PushIsWaitedForAFewSecondsAndThenCalledOff) {
  SimulatedClock clock;
  clock_ = &clock;
  std::atomic<int> seconds = 0;
  int cancelled_after = 0;
  world_.on_push = [this](uint64_t) {
    world_.log.Await("cancel 1");
    return absl::CancelledError("cancelled");
  };
  world_.on_cancel = [&](uint64_t) { cancelled_after = seconds; };
  StartJob(FakeJob());
  trainer_->Handle(LeaseMessage(1, 0, 1));
  world_.log.Await("push 0");
  std::atomic<bool> stopped = false;
  std::thread stop([&] {
    trainer_->Stop();
    stopped = true;
  });
  const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
  while (!stopped) {
    ASSERT_LT(Clock::Real()->Now(), deadline);
    clock.Advance(absl::Seconds(1));
    ++seconds;
    std::this_thread::yield();
  }
  stop.join();
  EXPECT_GE(cancelled_after, 4);
  EXPECT_EQ(NextReturned().step(), 0u);
  trainer_.reset();  // Before the clock.
}

TEST_F(StoppingTest, PullOfAnEvaluationEndsAtOnceWithoutAWord) {
  world_.on_pull = [](const FakePull& pull) {
    pull.wait_for_cancel();
    return absl::CancelledError("cancelled");
  };
  StartJob(FakeJob());
  trainer_->Handle(EvaluateMessage(1, "cut-1"));
  world_.log.Await("pull cut cut-1");
  trainer_->Stop();
  EXPECT_TRUE(said_.empty());
  EXPECT_THAT(world_.log.EventsWith("cancel "), IsEmpty()) << "pushes would be waited for";
}

}  // namespace
}  // namespace millrace::worker
