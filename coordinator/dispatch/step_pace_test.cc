#include "coordinator/dispatch/step_pace.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kFirst = absl::Minutes(1);

StepPace PaceOf(absl::Duration step) {
  StepPace pace;
  pace.Add(step);
  return pace;
}

TEST(StepPaceTest, SlowStepIsForgottenWithTheFastOnesAfterIt) {
  StepPace pace = PaceOf(absl::Seconds(10));
  for (int i = 0; i < 5; ++i) pace.Add(absl::Milliseconds(10));
  EXPECT_GT(pace.slowest(), absl::Seconds(3));
  for (int i = 0; i < 25; ++i) pace.Add(absl::Milliseconds(10));
  EXPECT_LT(pace.slowest(), absl::Milliseconds(20));
}

TEST(StepPaceTest, LeaseIsGenerousBeforeAStepWasSeen) {
  EXPECT_EQ(LeaseDuration(StepPace(), StepPace(), kFirst), kFirst);
  EXPECT_EQ(LeaseDuration(StepPace(), PaceOf(absl::Seconds(1)), kFirst), kFirst);
}

// Leases of a minute once held up jobs whose steps take milliseconds.
TEST(StepPaceTest, LeaseOfFastStepsLastsSeconds) {
  const StepPace fast = PaceOf(absl::Milliseconds(5));
  EXPECT_EQ(LeaseDuration(fast, fast, kFirst), absl::Seconds(2));
  EXPECT_EQ(LeaseDuration(fast, StepPace(), kFirst), absl::Seconds(5)) << "its first step";
}

TEST(StepPaceTest, LeaseFollowsTheSlowerOfTheJobAndTheWorker) {
  const StepPace slow = PaceOf(absl::Seconds(30));
  const StepPace fast = PaceOf(absl::Milliseconds(5));
  EXPECT_EQ(LeaseDuration(slow, fast, kFirst), absl::Seconds(120));
  EXPECT_EQ(LeaseDuration(fast, slow, kFirst), absl::Seconds(120));
}

TEST(StepPaceTest, ShorterFirstLeaseBoundsTheShortest) {
  const StepPace fast = PaceOf(absl::Milliseconds(5));
  EXPECT_EQ(LeaseDuration(fast, fast, absl::Milliseconds(500)), absl::Milliseconds(500));
}

TEST(StepPaceTest, StepIsLateAfterTwiceTheSlowest) {
  EXPECT_EQ(LateAfter(StepPace()), absl::InfiniteDuration());
  EXPECT_EQ(LateAfter(PaceOf(absl::Milliseconds(5))), absl::Milliseconds(250));
  EXPECT_EQ(LateAfter(PaceOf(absl::Seconds(3))), absl::Seconds(6));
}

}  // namespace
}  // namespace millrace::coordinator
