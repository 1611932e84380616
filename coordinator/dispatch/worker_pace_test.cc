#include "coordinator/dispatch/worker_pace.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

StepTimes TimesOf(double read, double pull, double compute, double push) {
  StepTimes times;
  times.set_read(read);
  times.set_pull(pull);
  times.set_compute(compute);
  times.set_push(push);
  return times;
}

WorkerPace PaceOf(double seconds, int steps = 5) {
  WorkerPace pace;
  for (int i = 0; i < steps; ++i) pace.Add(absl::Seconds(seconds));
  return pace;
}

TEST(WorkerPaceTest, WaitingForOthersIsNotAWorkersOwnTime) {
  EXPECT_EQ(OwnTime(TimesOf(1, 2, 4, 8), /*synchronous=*/false), absl::Seconds(15));
  EXPECT_EQ(OwnTime(TimesOf(1, 2, 4, 8), /*synchronous=*/true), absl::Seconds(13));
}

TEST(WorkerPaceTest, TimesThatMakeNoSenseAreIgnored) {
  EXPECT_FALSE(OwnTime(StepTimes(), false));
  EXPECT_FALSE(OwnTime(TimesOf(1, 1, std::nan(""), 1), false));
  EXPECT_FALSE(OwnTime(TimesOf(1, 1, -1, 1), false));
  EXPECT_FALSE(OwnTime(TimesOf(1, 1, INFINITY, 1), false));
  EXPECT_FALSE(OwnTime(TimesOf(1, 1, 1e300, 1), false));
}

TEST(WorkerPaceTest, SlownessIsComparedWithTheMedian) {
  EXPECT_THAT(SlownessOf({PaceOf(2), PaceOf(6), PaceOf(1)}),
              ElementsAre(DoubleEq(1), DoubleEq(3), DoubleEq(0.5)));
  EXPECT_THAT(SlownessOf({PaceOf(2), PaceOf(6)}), ElementsAre(DoubleEq(1), DoubleEq(3)))
      << "of two, the slow one is";
  EXPECT_THAT(SlownessOf({PaceOf(2), PaceOf(6, 1)}), ElementsAre(DoubleEq(1), DoubleEq(0)))
      << "of one step nothing follows";
  EXPECT_THAT(SlownessOf({PaceOf(0, 10), PaceOf(1)}), ElementsAre(DoubleEq(0), DoubleEq(0)));
  EXPECT_THAT(SlownessOf({}), ElementsAre());
}

TEST(WorkerPaceTest, SlowFirstStepIsForgotten) {
  WorkerPace pace;
  pace.Add(absl::Seconds(100));
  for (int i = 0; i < 2; ++i) pace.Add(absl::Seconds(1));
  EXPECT_EQ(pace.mean(), absl::Seconds(1));
}

// Workers were told of as slow, up to 322 times, in the first second of a job of short steps.
TEST(WorkerPaceTest, OfAFewShortStepsNothingFollows) {
  WorkerPace pace;
  for (const double seconds : {0.3, 0.2, 0.001, 0.001, 0.1, 0.001, 0.001, 0.001, 0.001}) {
    pace.Add(absl::Seconds(seconds));
    EXPECT_FALSE(pace.known());
  }
  pace.Add(absl::Seconds(0.001));
  ASSERT_TRUE(pace.known());
  EXPECT_EQ(pace.mean(), absl::Milliseconds(1));
}

TEST(WorkerPaceTest, OneLongStepIsNoSlowWorkerAndSeveralAre) {
  WorkerPace pace = PaceOf(1);
  pace.Add(absl::Seconds(1000));
  EXPECT_LT(pace.mean(), absl::Seconds(kSlow));
  for (int i = 0; i < 4; ++i) pace.Add(absl::Seconds(10));
  EXPECT_GT(pace.mean(), absl::Seconds(kVerySlow));
}

TEST(WorkerPaceTest, SlowWorkersGetSmallerLeases) {
  EXPECT_EQ(StepsForSlowness(32, 0), 32u);
  EXPECT_EQ(StepsForSlowness(32, 1.5), 32u);
  EXPECT_EQ(StepsForSlowness(32, 2), 16u);
  EXPECT_EQ(StepsForSlowness(32, 1000), 1u);
  EXPECT_EQ(StepsForSlowness(1, 4), 1u);
}

}  // namespace
}  // namespace millrace::coordinator
