#include "common/metric_sum.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace millrace {
namespace {

MetricSum Sum(double sum, double count, bool root = false) {
  MetricSum made;
  made.set_name("m");
  made.set_sum(sum);
  made.set_count(count);
  made.set_root(root);
  return made;
}

TEST(MetricSumTest, BatchesAreAddedUpBeforeTheyAreDivided) {
  MetricSum total;
  AddMetricSum(Sum(1, 1), &total);
  AddMetricSum(Sum(2, 9), &total);
  EXPECT_EQ(total.name(), "m");
  EXPECT_DOUBLE_EQ(MetricValue(total), 0.3);
}

TEST(MetricSumTest, TheRootIsOfTheMeanOfAllBatches) {
  MetricSum total;
  AddMetricSum(Sum(4, 1, /*root=*/true), &total);
  AddMetricSum(Sum(14, 1, /*root=*/true), &total);
  EXPECT_DOUBLE_EQ(MetricValue(total), 3);
}

TEST(MetricSumTest, NothingCountedIsZeroAndNanShows) {
  EXPECT_EQ(MetricValue(Sum(0, 0)), 0);
  EXPECT_TRUE(std::isnan(MetricValue(Sum(std::numeric_limits<double>::quiet_NaN(), 3))));
}

}  // namespace
}  // namespace millrace
