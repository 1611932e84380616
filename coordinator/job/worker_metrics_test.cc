#include "coordinator/job/worker_metrics.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/metric_sum.h"
#include "common/output_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;

void AddSumTo(StepResult* result, const std::string& name, double sum, double count) {
  MetricSum* added = result->add_metric_sums();
  added->set_name(name);
  added->set_sum(sum);
  added->set_count(count);
}

TEST(WorkerMetricsTest, SumsOfStepsAreAddedUpByTheirNames) {
  std::map<std::string, MetricSum> sums;
  StepResult step;
  AddSumTo(&step, "recall", 1, 2);
  AddSumTo(&step, "mae", 8, 4);
  AddMetricSums(step, &sums);
  step.clear_metric_sums();
  AddSumTo(&step, "recall", 2, 2);
  AddMetricSums(step, &sums);
  EXPECT_THAT(sums, ElementsAre(Key("mae"), Key("recall")));
  EXPECT_DOUBLE_EQ(MetricValue(sums["recall"]), 0.75);
  EXPECT_DOUBLE_EQ(MetricValue(sums["mae"]), 2);
}

TEST(WorkerMetricsTest, NamesThatNobodyCanReadOrThatAreTakenAreLeftOut) {
  std::map<std::string, MetricSum> sums;
  StepResult step;
  for (const std::string& name :
       {std::string(), std::string("a\x1b[2J"), std::string(101, 'x'), std::string("loss"),
        std::string("accuracy"), std::string("eval_auc")}) {
    AddSumTo(&step, name, 1, 1);
  }
  AddMetricSums(step, &sums);
  EXPECT_THAT(sums, IsEmpty());
}

TEST(WorkerMetricsTest, SumsAreNotMoreThanCanBeShown) {
  std::map<std::string, MetricSum> sums;
  StepResult step;
  for (int i = 0; i < 1000; ++i) AddSumTo(&step, absl::StrCat("m", i), 1, 1);
  AddMetricSums(step, &sums);
  AddMetricSums(step, &sums);
  EXPECT_THAT(sums, SizeIs(kMostReportedMetrics));
  EXPECT_EQ(sums["m0"].sum(), 2);
}

TEST(WorkerMetricsTest, WhatIsNotANumberShows) {
  std::map<std::string, MetricSum> sums;
  StepResult step;
  AddSumTo(&step, "mae", std::numeric_limits<double>::quiet_NaN(), 1);
  AddMetricSums(step, &sums);
  EXPECT_TRUE(std::isnan(MetricValue(sums["mae"])));
}

ConfusionMatrix Matrix(uint32_t classes, int counts) {
  ConfusionMatrix matrix;
  matrix.set_classes(classes);
  matrix.mutable_counts()->Resize(counts, 1);
  return matrix;
}

TEST(WorkerMetricsTest, MatricesAreSquareAndNotTooLarge) {
  EvaluationResult result;
  *result.add_confusion_matrices() = Matrix(3, 9);
  *result.add_confusion_matrices() = Matrix(3, 8);
  *result.add_confusion_matrices() = Matrix(0, 0);
  *result.add_confusion_matrices() = Matrix(1U << 31, 0);
  EXPECT_THAT(UsableMatrices(result), SizeIs(1));
  *result.add_confusion_matrices() = Matrix(100, 10'000);
  EXPECT_THAT(UsableMatrices(result), IsEmpty());
}

}  // namespace
}  // namespace millrace::coordinator
