#include "testing/chaos/sum_model.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace millrace::chaos {
namespace {

using Values = std::vector<std::vector<float>>;

// The variables after `steps`, in synchronous mode of versions of so many contributions.
Values After(const std::vector<uint64_t>& steps, int contributions = 1) {
  Values values = {std::vector<float>(20), std::vector<float>(3)};
  for (size_t v = 0; v < values.size(); ++v) {
    for (size_t i = 0; i < values[v].size(); ++i) {
      for (const uint64_t step : steps) {
        values[v][i] -= static_cast<float>(GradientOf(step, KindOf(v, i))) / contributions;
      }
    }
  }
  return values;
}

TEST(SumCheckerTest, AsynchronousStepHasAllThatTheStalenessBoundAsksFor) {
  const SumChecker checker(100, /*replicas=*/0, /*staleness_bound=*/2);
  EXPECT_TRUE(checker.CheckTraining(1, After({})).ok());
  EXPECT_TRUE(checker.CheckTraining(5, After({0, 1, 2})).ok());
  EXPECT_TRUE(checker.CheckTraining(5, After({0, 1, 2, 3, 6})).ok());
  EXPECT_TRUE(absl::IsInternal(checker.CheckTraining(5, After({0, 1}))));
}

TEST(SumCheckerTest, SynchronousStepHasExactlyTheVersionsBefore) {
  const SumChecker checker(100, /*replicas=*/4, /*staleness_bound=*/0);
  EXPECT_TRUE(checker.CheckTraining(3, After({}, 4)).ok());
  EXPECT_TRUE(checker.CheckTraining(4, After({0, 1, 2, 3}, 4)).ok());
  EXPECT_TRUE(absl::IsInternal(checker.CheckTraining(4, After({0, 1, 2}, 4))));
  EXPECT_TRUE(absl::IsInternal(checker.CheckTraining(4, After({0, 1, 2, 3, 4}, 4))));
}

TEST(SumCheckerTest, EvaluationCountsTheStepsOfAWholeState) {
  const SumChecker checker(100, /*replicas=*/0, /*staleness_bound=*/4);
  EXPECT_EQ(checker.CheckEvaluation(After({})).value(), 0u);
  EXPECT_EQ(checker.CheckEvaluation(After({2, 1, 0})).value(), 3u);
}

TEST(SumCheckerTest, EvaluationOfAMissingOrRepeatedStepOrATornStateFails) {
  const SumChecker checker(100, /*replicas=*/0, /*staleness_bound=*/4);
  EXPECT_TRUE(absl::IsInternal(checker.CheckEvaluation(After({0, 2})).status()));
  EXPECT_TRUE(absl::IsInternal(checker.CheckEvaluation(After({0, 1, 1})).status()));
  Values torn = After({0, 1, 2});
  torn[1] = After({0, 1})[1];
  EXPECT_TRUE(absl::IsInternal(checker.CheckEvaluation(torn).status()));
}

}  // namespace
}  // namespace millrace::chaos
