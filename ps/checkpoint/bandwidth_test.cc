#include "ps/checkpoint/bandwidth.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;

// Time passes where somebody waits for it, and only there.
class WaitingClock final : public Clock {
 public:
  absl::Time Now() override { return now_; }
  bool WaitUntil(CondVar* /*condition*/, Mutex* /*mutex*/, absl::Time deadline) override {
    waits_.push_back(deadline - now_);
    now_ = std::max(now_, deadline);
    return true;
  }

  void Pass(absl::Duration time) { now_ += time; }
  const std::vector<absl::Duration>& waits() const { return waits_; }

 private:
  absl::Time now_ = absl::UnixEpoch();
  std::vector<absl::Duration> waits_;
};

absl::Status GoOn() { return absl::OkStatus(); }

TEST(BandwidthTest, WritesAsManyBytesASecondAsItIsTold) {
  WaitingClock clock;
  Bandwidth bandwidth(10 * kMiB, &clock);
  const absl::Time begin = clock.Now();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(bandwidth.Take(kMiB, GoOn).ok());
  EXPECT_EQ(clock.Now() - begin, absl::Seconds(5) - Bandwidth::kBurst);
}

TEST(BandwidthTest, NoLimitWaitsForNothing) {
  WaitingClock clock;
  Bandwidth bandwidth(0, &clock);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(bandwidth.Take(kMiB, GoOn).ok());
  EXPECT_THAT(clock.waits(), ElementsAre());
}

TEST(BandwidthTest, TimeInWhichNobodyWroteIsNotSavedUp) {
  WaitingClock clock;
  Bandwidth bandwidth(10 * kMiB, &clock);
  clock.Pass(absl::Hours(1));
  const absl::Time begin = clock.Now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(bandwidth.Take(kMiB, GoOn).ok());
  EXPECT_EQ(clock.Now() - begin, absl::Seconds(2) - Bandwidth::kBurst);
}

TEST(BandwidthTest, WaitEndsSoonWhenThereIsNoMorePoint) {
  WaitingClock clock;
  Bandwidth bandwidth(1, &clock);  // Twelve days for a MiB.
  int looks = 0;
  const absl::Status status = bandwidth.Take(
      kMiB, [&looks] { return ++looks < 5 ? absl::OkStatus() : absl::CancelledError("enough"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_LE(clock.Now() - absl::UnixEpoch(), 5 * Bandwidth::kPoll);
}

}  // namespace
}  // namespace millrace::ps
