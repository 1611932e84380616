#include "client/progress/step_times.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;

StepTimes Times(double wait, double read, double pull, double compute) {
  StepTimes times;
  times.set_wait(wait);
  times.set_read(read);
  times.set_pull(pull);
  times.set_compute(compute);
  times.set_forward(compute / 4);
  times.set_push(0.018);
  return times;
}

TEST(StepTimesTest, SharesAreOfWhatAWorkerDoesOneAfterTheOther) {
  StepTimes times = Times(0.002, 0, 0.006, 0.032);
  EXPECT_EQ(FormatStepTimes(times),
            "40 ms: 60% backward, 20% forward, 15% pull, 5% wait; push 18 ms");
  times.set_copy(0.003);
  EXPECT_THAT(FormatStepTimes(times), HasSubstr("15% pull (3 ms of copying)"));
  times.set_copy(0.007);  // While the step before computed.
  EXPECT_THAT(FormatStepTimes(times), HasSubstr("15% pull, "));
  EXPECT_EQ(FormatStepTimes(StepTimes()), "");
}

TEST(StepTimesTest, AdviceIsForWhatIsWaitedForMost) {
  EXPECT_EQ(StepAdvice(Times(0.001, 0.001, 0.001, 0.01)), "");
  EXPECT_THAT(StepAdvice(Times(0.001, 0.001, 0.02, 0.01)), HasSubstr("more ps servers"));
  EXPECT_THAT(StepAdvice(Times(0.001, 0.02, 0.001, 0.01)), HasSubstr("the data"));
  EXPECT_THAT(StepAdvice(Times(0.02, 0.001, 0.001, 0.01)), HasSubstr("staleness_bound"));
  EXPECT_EQ(StepAdvice(StepTimes()), "");
}

TEST(StepTimesTest, JsonHasEveryPart) {
  EXPECT_EQ(StepTimesJson(Times(1, 2, 3, 4)),
            nlohmann::ordered_json::parse(R"({"read": 2.0, "pull": 3.0, "copy": 0.0,
                "forward": 1.0, "backward": 3.0, "push": 0.018, "wait": 1.0})"));
}

}  // namespace
}  // namespace millrace::client
