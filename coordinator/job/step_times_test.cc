#include "coordinator/job/step_times.h"

#include <limits>

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

StepTimes Times(double pull, double compute) {
  StepTimes times;
  times.set_pull(pull);
  times.set_compute(compute);
  return times;
}

TEST(StepTimesTest, MeansAreOverTheStepsThatHaveTimes) {
  StepTimeGatherer gatherer;
  gatherer.Add(Times(1, 2));
  gatherer.Add(StepTimes());
  gatherer.Add(Times(3, 6));
  const StepTimeSum sum = gatherer.Take();
  EXPECT_EQ(sum.steps, 2u);
  EXPECT_EQ(sum.Mean().pull(), 2);
  EXPECT_EQ(sum.Mean().compute(), 4);
  EXPECT_EQ(gatherer.Take().steps, 0u);
}

TEST(StepTimesTest, WhatIsNoTimeDoesNotCount) {
  StepTimeSum sum;
  sum.Add(Times(-1, 2));
  sum.Add(Times(1, std::numeric_limits<double>::quiet_NaN()));
  sum.Add(Times(1, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(sum.steps, 0u);
  sum.Add(Times(1, 2));
  EXPECT_EQ(sum.Mean().compute(), 2);
}

TEST(StepTimesTest, SumsAddUp) {
  StepTimeSum sum;
  sum.Add(Times(1, 2));
  StepTimeSum more;
  more.Add(Times(3, 4));
  more.Add(Times(5, 6));
  sum.Add(more);
  EXPECT_EQ(sum.steps, 3u);
  EXPECT_EQ(sum.times.pull(), 9);
  EXPECT_EQ(sum.Mean().compute(), 4);
}

}  // namespace
}  // namespace millrace::coordinator
