// What metrics make of unusual values; ordinary ones are compared with Keras's in
// worker/device/cpu/losses/losses_reference_test.cc.
#include "worker/model/batch_metrics.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OutputPlan PlanWith(Loss loss, uint64_t width, const MetricPlan& metric) {
  OutputPlan plan;
  plan.loss = loss;
  plan.width = width;
  plan.metrics = {metric};
  return plan;
}

double Accuracy(Loss loss, const std::vector<float>& logits, const std::vector<int64_t>& labels) {
  const Tensor label = IdTensor(labels);
  const OutputPlan plan =
      PlanWith(loss, logits.size() / labels.size(), {ACCURACY, "accuracy", 0, 0});
  absl::optional<double> accuracy;
  MetricSums sums;
  AddMetrics(plan, {logits, &label, labels.size()}, &accuracy, &sums);
  EXPECT_TRUE(sums.empty());
  return accuracy.value();
}

double TopTwo(const std::vector<float>& logits, int64_t label_value) {
  const Tensor label = IdTensor({label_value});
  const OutputPlan plan = PlanWith(SPARSE_CATEGORICAL_CROSSENTROPY, logits.size(),
                                   {TOP_K_ACCURACY, "top_2_accuracy", 2, 0});
  absl::optional<double> accuracy;
  MetricSums sums;
  AddMetrics(plan, {logits, &label, 1}, &accuracy, &sums);
  return sums["top_2_accuracy"].sum();
}

TEST(BatchMetricsTest, RightIsTheFirstLargest) {
  const auto loss = SPARSE_CATEGORICAL_CROSSENTROPY;
  EXPECT_EQ(Accuracy(loss, {1, 5, 2, 4, 4, 0}, {1, 0}), 2);
  EXPECT_EQ(Accuracy(loss, {1, 5, 2, 4, 4, 0}, {0, 1}), 0);
}

TEST(BatchMetricsTest, RightIsAboveZeroExactlyForOne) {
  EXPECT_EQ(Accuracy(BINARY_CROSSENTROPY, {1, -1, 0, 0}, {1, 0, 0, 1}), 3);
}

TEST(BatchMetricsTest, TopKTakesTiesForRightAndWhatIsNotFiniteForWrong) {
  EXPECT_EQ(TopTwo({3, 2, 1}, 1), 1);
  EXPECT_EQ(TopTwo({3, 2, 1}, 2), 0);
  EXPECT_EQ(TopTwo({3, 2, 2}, 2), 1);
  EXPECT_EQ(TopTwo({kNan, 2, 1}, 1), 0);
  EXPECT_EQ(TopTwo({1, 2, kNan}, 2), 0);
}

TEST(BatchMetricsTest, ErrorsThatAreNotANumberShow) {
  Tensor label = FloatTensor({1, 2});
  OutputPlan plan = PlanWith(HUBER, 1, {MAE, "mae", 0, 0});
  plan.label_is_id = false;
  absl::optional<double> accuracy;
  MetricSums sums;
  AddMetrics(plan, {{kNan, 2}, &label, 2}, &accuracy, &sums);
  EXPECT_TRUE(std::isnan(sums["mae"].sum()));
  EXPECT_EQ(sums["mae"].count(), 2);
}

TEST(BatchMetricsTest, ConfusionMatrixHasLabelsAsRows) {
  const Tensor label = IdTensor({0, 0, 1, 2});
  const OutputPlan plan =
      PlanWith(SPARSE_CATEGORICAL_CROSSENTROPY, 3, {CONFUSION_MATRIX, "confusion_matrix", 0, 0});
  EvaluationSums sums;
  const std::vector<float> logits = {1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0};
  AddEvaluationMetrics(plan, {logits, &label, 4}, &sums);
  EXPECT_THAT(sums.confusion_matrices[""].counts(), ElementsAre(1, 0, 1, 0, 1, 0, 0, 1, 0));
}

TEST(BatchMetricsTest, TheClassOfProbabilitiesIsTheFirstLargest) {
  const Tensor label = FloatTensor({0.25f, 0.5f, 0.25f, 0.5f, 0.5f, 0});
  OutputPlan plan = PlanWith(CATEGORICAL_CROSSENTROPY, 3, {});
  plan.label_is_id = false;
  const std::vector<float> logits(6);
  EXPECT_EQ(ClassOf(plan, {logits, &label, 2}, 0), 1);
  EXPECT_EQ(ClassOf(plan, {logits, &label, 2}, 1), 0);
  // A device that weighs examples has not computed them yet.
  EXPECT_EQ(ClassOf(plan, {{}, &label, 2}, 0), 1);
  EXPECT_EQ(ClassOf(plan, {{}, &label, 2}, 1), 0);
}

}  // namespace
}  // namespace millrace::worker
