#include "coordinator/job/training_stats.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr uint64_t kExamples = 10;

StepResult Step(double loss_sum) {
  StepResult result;
  result.set_examples(kExamples);
  result.set_loss_sum(loss_sum);
  return result;
}

TEST(TrainingStatsTest, MeansAreOverTheExamplesSinceTheLastProgress) {
  TrainingStats stats;
  const absl::Time start = absl::UnixEpoch();
  stats.Restart(start);
  stats.Add(Step(5));
  StepResult with_accuracy = Step(15);
  with_accuracy.set_accuracy_sum(9);
  stats.Add(with_accuracy);
  const auto progress = stats.Take(start + absl::Seconds(2));
  ASSERT_TRUE(progress);
  EXPECT_DOUBLE_EQ(progress->examples_per_second(), 10);
  EXPECT_DOUBLE_EQ(progress->metrics().at("loss"), 1);
  EXPECT_DOUBLE_EQ(progress->metrics().at("accuracy"), 0.9);

  stats.Add(Step(20));
  const auto next = stats.Take(start + absl::Seconds(3));
  ASSERT_TRUE(next);
  EXPECT_DOUBLE_EQ(next->metrics().at("loss"), 2);
  EXPECT_EQ(next->metrics().count("accuracy"), 0u);
}

TEST(TrainingStatsTest, OtherMetricsAreRatiosOfTheirSums) {
  TrainingStats stats;
  stats.Restart(absl::UnixEpoch());
  for (const double wrong : {1, 2}) {
    StepResult step = Step(5);
    MetricSum* precision = step.add_metric_sums();
    precision->set_name("precision");
    precision->set_sum(1);
    precision->set_count(1 + wrong);
    MetricSum* rmse = step.add_metric_sums();
    rmse->set_name("rmse");
    rmse->set_sum(wrong == 1 ? 40 : 140);
    rmse->set_count(kExamples);
    rmse->set_root(true);
    stats.Add(step);
  }
  const auto progress = stats.Take(absl::UnixEpoch() + absl::Seconds(1));
  ASSERT_TRUE(progress);
  EXPECT_DOUBLE_EQ(progress->metrics().at("precision"), 0.4);
  EXPECT_DOUBLE_EQ(progress->metrics().at("rmse"), 3);

  stats.Add(Step(1));
  const auto next = stats.Take(absl::UnixEpoch() + absl::Seconds(2));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->metrics().count("precision"), 0u);
}

// One such sum of one worker made the job's number NaN or infinite.
TEST(TrainingStatsTest, SumsThatAreNoNumberOrTooLargeAreLeftOut) {
  constexpr double kMost = std::numeric_limits<double>::max();
  TrainingStats stats;
  stats.Restart(absl::UnixEpoch());
  const auto add = [&stats](double loss, double accuracy) {
    StepResult step = Step(loss);
    step.set_accuracy_sum(accuracy);
    stats.Add(step);
  };
  add(kMost, 9);
  add(kMost, std::nan(""));
  add(0, kMost);
  add(0, kMost);
  const auto progress = stats.Take(absl::UnixEpoch() + absl::Seconds(1));
  ASSERT_TRUE(progress);
  for (const auto& [name, value] : progress->metrics()) {
    EXPECT_TRUE(std::isfinite(value)) << name << ": " << value;
  }
  EXPECT_EQ(progress->metrics().size(), 2u);
  EXPECT_DOUBLE_EQ(progress->examples_per_second(), 4 * kExamples);
}

TEST(TrainingStatsTest, NothingIsToldWhereNoStepWasDone) {
  TrainingStats stats;
  EXPECT_FALSE(stats.Take(absl::UnixEpoch() + absl::Seconds(1)));
  stats.Add(Step(1));
  stats.Restart(absl::UnixEpoch());
  EXPECT_FALSE(stats.Take(absl::UnixEpoch() + absl::Seconds(1)));
}

}  // namespace
}  // namespace millrace::coordinator
