#include "coordinator/job/progress_watch.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kLateAfter = absl::Seconds(4);

// A job that had 100 steps when it began again with 90, at second 0.
class ProgressWatchTest : public testing::Test {
 protected:
  ProgressWatchTest() { watch_.Start(90, /*before=*/100, absl::UnixEpoch()); }

  absl::optional<TimeUse> Look(uint64_t steps, int second, bool stands = false,
                               absl::Duration late_after = kLateAfter) {
    return watch_.Look(steps, stands, late_after, absl::FromUnixSeconds(second));
  }

  ProgressWatch watch_;
};

TEST_F(ProgressWatchTest, StepsThatThereWereBeforeRunAgain) {
  EXPECT_EQ(Look(95, 1), TimeUse::kRunningAgain);
  EXPECT_EQ(Look(100, 2), TimeUse::kTraining);
  EXPECT_EQ(Look(110, 3), TimeUse::kTraining);
  watch_.Start(105, /*before=*/0, absl::FromUnixSeconds(4));
  EXPECT_EQ(Look(109, 5), TimeUse::kRunningAgain) << "it has seen more itself";
}

TEST_F(ProgressWatchTest, WithoutAStepItTrainsForAsLongAsStepsTake) {
  EXPECT_EQ(Look(101, 1), TimeUse::kTraining);
  EXPECT_EQ(Look(101, 5), TimeUse::kTraining);
  EXPECT_EQ(Look(101, 6), absl::nullopt);
  EXPECT_EQ(Look(102, 7), TimeUse::kTraining);
}

TEST_F(ProgressWatchTest, WhereNobodyKnowsHowLongStepsTakePatienceEnds) {
  EXPECT_EQ(Look(90, 10, /*stands=*/false, absl::InfiniteDuration()), TimeUse::kRunningAgain);
  EXPECT_EQ(Look(90, 11, /*stands=*/false, absl::InfiniteDuration()), absl::nullopt);
}

TEST_F(ProgressWatchTest, JobThatStandsDoesNotTrainAndHasItsTimeAfterwards) {
  EXPECT_EQ(Look(101, 1), TimeUse::kTraining);
  EXPECT_EQ(Look(101, 2, /*stands=*/true), absl::nullopt);
  EXPECT_EQ(Look(101, 60, /*stands=*/true), absl::nullopt);
  EXPECT_EQ(Look(101, 63), TimeUse::kTraining) << "the next step is under way";
  EXPECT_EQ(Look(102, 64, /*stands=*/true), TimeUse::kTraining) << "it came to stand only now";
}

}  // namespace
}  // namespace millrace::coordinator
