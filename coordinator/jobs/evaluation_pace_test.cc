#include "coordinator/jobs/evaluation_pace.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

TEST(EvaluationPaceTest, FirstEvaluationMayTakeTheMost) {
  EXPECT_EQ(EvaluationPace(absl::Minutes(10)).Patience(), absl::Minutes(10));
}

// A worker that stood still, and spoke, kept its job waiting for --member_timeout each time.
TEST(EvaluationPaceTest, FollowsTheLongest) {
  EvaluationPace pace(absl::Minutes(10));
  pace.Took(absl::Seconds(20));
  pace.Took(absl::Seconds(5));
  EXPECT_EQ(pace.Patience(), absl::Seconds(80));
  pace.Took(absl::Minutes(4));
  EXPECT_EQ(pace.Patience(), absl::Minutes(10));
}

TEST(EvaluationPaceTest, QuickOnesGetAFewSeconds) {
  EvaluationPace pace(absl::Minutes(10));
  pace.Took(absl::Milliseconds(3));
  EXPECT_EQ(pace.Patience(), absl::Seconds(10));
}

// A cluster that has become slow evaluates nevertheless.
TEST(EvaluationPaceTest, GrowsAfterEachThatWasGivenUp) {
  EvaluationPace pace(absl::Minutes(10));
  pace.Took(absl::Seconds(10));
  pace.GaveUp();
  EXPECT_EQ(pace.Patience(), absl::Seconds(80));
  for (int i = 0; i < 100; ++i) pace.GaveUp();
  EXPECT_EQ(pace.Patience(), absl::Minutes(10));
  pace.Took(absl::Seconds(60));
  EXPECT_EQ(pace.Patience(), absl::Seconds(240));
}

}  // namespace
}  // namespace millrace::coordinator
