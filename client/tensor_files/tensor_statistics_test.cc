#include "client/tensor_files/tensor_statistics.h"

#include <cmath>

#include "gtest/gtest.h"

namespace millrace::client {
namespace {

TEST(TensorStatisticsTest, AreThoseOfTheFiniteValues) {
  TensorStatistics statistics;
  statistics.Add({3, -4, NAN});
  statistics.Add({HUGE_VALF, -HUGE_VALF, 0, 5});
  EXPECT_EQ(statistics.count(), 7u);
  EXPECT_EQ(statistics.finite(), 4u);
  EXPECT_EQ(statistics.nan(), 1u);
  EXPECT_EQ(statistics.infinite(), 2u);
  EXPECT_EQ(statistics.min(), -4);
  EXPECT_EQ(statistics.max(), 5);
  EXPECT_EQ(statistics.mean(), 1);
  EXPECT_DOUBLE_EQ(statistics.norm(), std::sqrt(50.0));
}

TEST(TensorStatisticsTest, NegativeValuesHaveANegativeLargest) {
  TensorStatistics statistics;
  statistics.Add({-3, -4});
  EXPECT_EQ(statistics.max(), -3);
}

}  // namespace
}  // namespace millrace::client
