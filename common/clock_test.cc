#include "common/clock.h"

#include <thread>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(SimulatedClockTest, StandsStillUntilAdvanced) {
  const absl::Time start = absl::FromUnixSeconds(1'000);
  SimulatedClock clock(start);
  EXPECT_EQ(clock.Now(), start);
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(clock.Now(), start + absl::Seconds(5));
}

TEST(SimulatedClockTest, WaitEndsWhenTheClockPassesTheDeadline) {
  SimulatedClock clock;
  Mutex mutex;
  CondVar condition;
  const absl::Time deadline = clock.Now() + absl::Hours(1);
  std::thread other([&clock] { clock.Advance(absl::Hours(2)); });
  {
    MutexLock lock(&mutex);
    while (!clock.WaitUntil(&condition, &mutex, deadline)) {
    }
  }
  EXPECT_GE(clock.Now(), deadline);
  other.join();
}

TEST(SimulatedClockTest, WaitBeforeTheDeadlineSaysSo) {
  SimulatedClock clock;
  Mutex mutex;
  CondVar condition;
  MutexLock lock(&mutex);
  EXPECT_FALSE(clock.WaitUntil(&condition, &mutex, clock.Now() + absl::Hours(1)));
  EXPECT_TRUE(clock.WaitUntil(&condition, &mutex, clock.Now()));
}

// Any clock: a waiter sees what was done under the lock before the signal.
void ExpectSignalWakes(Clock* clock, absl::Time deadline) {
  Mutex mutex;
  CondVar condition;
  bool done = false;  // Guarded by mutex.
  std::thread other([&] {
    MutexLock lock(&mutex);
    done = true;
    condition.SignalAll();
  });
  {
    MutexLock lock(&mutex);
    while (!done) clock->WaitUntil(&condition, &mutex, deadline);
  }
  other.join();
}

TEST(SimulatedClockTest, SignalEndsTheWait) {
  SimulatedClock clock;
  ExpectSignalWakes(&clock, absl::InfiniteFuture());
}

TEST(RealClockTest, SignalEndsTheWait) { ExpectSignalWakes(Clock::Real(), absl::InfiniteFuture()); }

TEST(RealClockTest, DeadlineThatHasPassedEndsTheWaitAtOnce) {
  Mutex mutex;
  CondVar condition;
  MutexLock lock(&mutex);
  Clock* const clock = Clock::Real();
  EXPECT_TRUE(clock->WaitUntil(&condition, &mutex, clock->Now() - absl::Hours(1)));
  EXPECT_TRUE(clock->WaitUntil(&condition, &mutex, absl::InfinitePast()));
}

}  // namespace
}  // namespace millrace
