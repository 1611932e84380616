#include "worker/model/penalty.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

TEST(PenaltyTest, EveryValueCountsOnce) {
  Regularizer regularizer;
  regularizer.set_l1(0.5);
  regularizer.set_l2(0.25);
  std::vector<float> values;
  double sum = 0;
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_DOUBLE_EQ(Penalty(regularizer, values), sum) << i << " values";
    const double w = (i % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(i + 1);
    values.push_back(static_cast<float>(w));
    sum += 0.5 * std::abs(w) + 0.25 * w * w;
  }
}

TEST(PenaltyTest, WithoutARegularizerNothingIsAdded) {
  EXPECT_EQ(Penalty(Regularizer(), std::vector<float>{INFINITY}), 0);
}

}  // namespace
}  // namespace millrace::worker
