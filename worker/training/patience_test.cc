#include "worker/training/patience.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

class PatienceTest : public ::testing::Test {
 protected:
  // Waits in vain: until the time that it may.
  absl::Status WaitInVain(absl::Time until) {
    turns_.push_back(until - clock_.Now());
    clock_.Advance(until - clock_.Now());
    return absl::DeadlineExceededError("waits for ps-1");
  }

  Patience Until(absl::Duration timeout) { return {&clock_, timeout, absl::Seconds(5), "step 3"}; }

  SimulatedClock clock_;
  std::vector<absl::Duration> turns_;
};

TEST_F(PatienceTest, ReturnsTheFirstAnswer) {
  EXPECT_EQ(WaitPatiently(
                Until(absl::Minutes(1)), [] { return false; },
                [](absl::Time) { return absl::AbortedError("gone"); }),
            absl::AbortedError("gone"));
}

TEST_F(PatienceTest, WaitsInGrowingTurnsUntilTheDeadline) {
  const absl::Status status = WaitPatiently(
      Until(absl::Seconds(40)), [] { return false; },
      [this](absl::Time until) { return WaitInVain(until); });
  EXPECT_EQ(status, absl::DeadlineExceededError("waits for ps-1"));
  EXPECT_THAT(turns_, ElementsAre(absl::Seconds(5), absl::Seconds(10), absl::Seconds(20),
                                  absl::Seconds(5)));
}

TEST_F(PatienceTest, EndsBetweenTurnsWhenAskedTo) {
  const absl::Status status = WaitPatiently(
      Until(absl::Seconds(40)), [this] { return turns_.size() == 2; },
      [this](absl::Time until) { return WaitInVain(until); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(turns_.size(), 2);
}

TEST_F(PatienceTest, DeadlineOfSomebodyElseIsAnAnswer) {
  int calls = 0;
  const absl::Status status = WaitPatiently(
      Until(absl::Seconds(40)), [] { return false; },
      [&calls](absl::Time) {
        ++calls;
        return absl::DeadlineExceededError("the server's own limit");
      });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace millrace::worker
