#include "coordinator/run/result_check.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

TEST(ResultCheckTest, LastStepOfAnEpochHasTheRest) {
  EXPECT_EQ(ExamplesOfStep(0, 4, 10), 4u);
  EXPECT_EQ(ExamplesOfStep(2, 4, 10), 2u);
  EXPECT_EQ(ExamplesOfStep(3, 4, 10), 4u);
  EXPECT_EQ(ExamplesOfStep(5, 4, 10), 2u);
  EXPECT_EQ(ExamplesOfStep(1, 5, 10), 5u);
  EXPECT_EQ(ExamplesOfStep(7, 64, 10), 10u) << "one step an epoch";
}

TEST(ResultCheckTest, WithoutAPlanNothingIsKnown) {
  EXPECT_EQ(ExamplesOfStep(3, 4, 0), 0u);
  EXPECT_EQ(ExamplesOfStep(3, 0, 10), 0u);
}

}  // namespace
}  // namespace millrace::coordinator
