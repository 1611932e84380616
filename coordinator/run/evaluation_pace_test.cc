#include "coordinator/run/evaluation_pace.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

// A worker that stood still, and spoke, kept its job waiting for --member_timeout each time.
TEST(EvaluationPaceTest, FollowsTheLongest) {
  EvaluationPace pace;
  EXPECT_EQ(pace.Patience(), absl::Minutes(1));
  pace.Took(absl::Seconds(20));
  pace.Took(absl::Seconds(5));
  EXPECT_EQ(pace.Patience(), absl::Seconds(80));
}

TEST(EvaluationPaceTest, QuickOnesGetAFewSeconds) {
  EvaluationPace pace;
  pace.Took(absl::Milliseconds(3));
  EXPECT_EQ(pace.Patience(), absl::Seconds(10));
}

// One that took longer than --member_timeout went from worker to worker for ever.
TEST(EvaluationPaceTest, GrowsAfterEachThatWasGivenUp) {
  EvaluationPace pace;
  for (int i = 0; i < 6; ++i) pace.GaveUp();
  EXPECT_EQ(pace.Patience(), absl::Minutes(64));
  pace.Took(absl::Minutes(20));
  EXPECT_EQ(pace.Patience(), absl::Minutes(80));
  for (int i = 0; i < 100; ++i) pace.GaveUp();
  EXPECT_GT(pace.Patience(), absl::Hours(1000));
  EXPECT_LT(pace.Patience(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace millrace::coordinator
