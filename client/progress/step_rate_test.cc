#include "client/progress/step_rate.h"

#include "gtest/gtest.h"

namespace millrace::client {
namespace {

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(StepRateTest, NothingIsKnownBeforeTwoSamples) {
  StepRate rate;
  EXPECT_FALSE(rate.TimeLeft(100).has_value());
  rate.Add(At(0), 10);
  EXPECT_FALSE(rate.TimeLeft(100).has_value());
  rate.Add(At(1), 10);  // No step was made.
  EXPECT_FALSE(rate.TimeLeft(100).has_value());
}

TEST(StepRateTest, TimeLeftFollowsTheRate) {
  StepRate rate;
  rate.Add(At(0), 0);
  rate.Add(At(2), 20);
  EXPECT_EQ(*rate.TimeLeft(100), absl::Seconds(8));
}

TEST(StepRateTest, OldRatesAreForgotten) {
  StepRate rate;
  rate.Add(At(0), 0);
  for (int second = 1000; second <= 1040; ++second) {
    rate.Add(At(second), 5 * static_cast<uint64_t>(second - 1000));
  }
  EXPECT_EQ(*rate.TimeLeft(300), absl::Seconds(20));
}

TEST(StepRateTest, AJobThatStepsBackStartsAnew) {
  StepRate rate;
  rate.Add(At(0), 0);
  rate.Add(At(10), 100);
  rate.Add(At(20), 50);
  EXPECT_FALSE(rate.TimeLeft(100).has_value());
  rate.Add(At(21), 51);
  EXPECT_EQ(*rate.TimeLeft(100), absl::Seconds(49));
}

TEST(StepRateTest, NothingIsLeftAtTheEnd) {
  StepRate rate;
  rate.Add(At(0), 0);
  rate.Add(At(1), 10);
  EXPECT_EQ(*rate.TimeLeft(10), absl::ZeroDuration());
}

}  // namespace
}  // namespace millrace::client
