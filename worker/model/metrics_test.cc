#include "worker/model/metrics.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model.h"

namespace millrace::worker {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// The definition: pairs, one by one.
double CountPairs(const std::vector<float>& scores, const std::vector<bool>& positives) {
  double in_order = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (!positives[i] || positives[j]) continue;
      pairs += 1;
      in_order += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return in_order / pairs;
}

TEST(AreaUnderRocCurveTest, KnownValues) {
  EXPECT_EQ(AreaUnderRocCurve({1, 2, 3, 4}, {false, false, true, true}), 1.0);
  EXPECT_EQ(AreaUnderRocCurve({4, 3, 2, 1}, {false, false, true, true}), 0.0);
  EXPECT_EQ(AreaUnderRocCurve({0.1f, 0.4f, 0.35f, 0.8f}, {false, false, true, true}), 0.75);
}

TEST(AreaUnderRocCurveTest, TiesCountHalf) {
  EXPECT_EQ(AreaUnderRocCurve({5, 5, 5}, {true, false, true}), 0.5);
  EXPECT_EQ(AreaUnderRocCurve({1, 1, 2}, {true, false, true}), 0.75);
  EXPECT_EQ(AreaUnderRocCurve({-0.0f, 0.0f}, {true, false}), 0.5);
}

TEST(AreaUnderRocCurveTest, EqualsTheShareOfPairs) {
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> scores;
    std::vector<bool> positives;
    for (int i = 0; i < 40; ++i) {
      scores.push_back(static_cast<float>(random() % 9) - 4);
      positives.push_back(i == 0 || (i > 1 && random() % 3 == 0));
    }
    EXPECT_DOUBLE_EQ(*AreaUnderRocCurve(scores, positives), CountPairs(scores, positives));
  }
}

TEST(AreaUnderRocCurveTest, NoneWithoutBothKinds) {
  EXPECT_EQ(AreaUnderRocCurve({}, {}), absl::nullopt);
  EXPECT_EQ(AreaUnderRocCurve({1, 2}, {true, true}), absl::nullopt);
  EXPECT_EQ(AreaUnderRocCurve({1, 2}, {false, false}), absl::nullopt);
}

TEST(AreaUnderRocCurveTest, NanScoresGiveNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(*AreaUnderRocCurve({1, nan, 0}, {true, false, true})));
}

TEST(EvaluationMetricsTest, MeansOverExamples) {
  EvaluationSums sums;
  sums.examples = 8;
  sums.loss_sum = 2;
  EXPECT_THAT(EvaluationMetrics(sums), UnorderedElementsAre(Pair("loss", 0.25)));
  sums.accuracy_sum = 6;
  EXPECT_THAT(EvaluationMetrics(sums),
              UnorderedElementsAre(Pair("loss", 0.25), Pair("accuracy", 0.75)));
}

TEST(EvaluationMetricsTest, AucWhereScoresAreKept) {
  EvaluationSums sums;
  sums.examples = 2;
  sums.loss_sum = 1;
  sums.curves["auc"].Add(0.5f, true);
  sums.curves["auc"].Add(-0.5f, false);
  EXPECT_THAT(EvaluationMetrics(sums), UnorderedElementsAre(Pair("loss", 0.5), Pair("auc", 1.0)));
}

TEST(EvaluationMetricsTest, SumsOfMetricsAreDividedAtTheEnd) {
  EvaluationSums sums;
  sums.examples = 2;
  AddTo("rmse", 10, 1, /*root=*/true, &sums.metric_sums);
  AddTo("rmse", 8, 1, /*root=*/true, &sums.metric_sums);
  AddTo("recall", 0, 0, /*root=*/false, &sums.metric_sums);
  EXPECT_THAT(EvaluationMetrics(sums),
              UnorderedElementsAre(Pair("loss", 0), Pair("rmse", 3), Pair("recall", 0)));
}

TEST(RocSumsTest, AScoreThatIsNotANumberShows) {
  RocSums curve(/*num_thresholds=*/10);
  curve.Add(1, true);
  curve.Add(-1, false);
  EXPECT_EQ(curve.Area(), 1.0);
  curve.Add(std::numeric_limits<float>::quiet_NaN(), false);
  EXPECT_TRUE(std::isnan(*curve.Area()));
}

TEST(RocSumsTest, InfiniteScoresAreTheOutermost) {
  const float infinity = std::numeric_limits<float>::infinity();
  RocSums curve(/*num_thresholds=*/3);
  curve.Add(infinity, true);
  curve.Add(-infinity, false);
  EXPECT_EQ(curve.Area(), 1.0);
}

TEST(RocSumsTest, WithoutBothKindsThereIsNoArea) {
  RocSums curve(/*num_thresholds=*/10);
  EXPECT_EQ(curve.Area(), absl::nullopt);
  curve.Add(1, true);
  EXPECT_EQ(curve.Area(), absl::nullopt);
  EXPECT_EQ(RocSums().Area(), absl::nullopt);
}

}  // namespace
}  // namespace millrace::worker
