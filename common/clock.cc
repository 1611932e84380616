#include "common/clock.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace millrace {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() override {
    return started_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
  }

  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    condition->WaitWithTimeout(mutex, deadline - Now());
    return Now() >= deadline;
  }

 private:
  const absl::Time started_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

// So far ahead that it is no deadline, and so near that it can be added to.
constexpr absl::Duration kLongestTimeout = absl::Hours(24 * 365);

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

std::chrono::system_clock::time_point SystemDeadline(absl::Duration timeout) {
  const absl::Time now = absl::FromChrono(std::chrono::system_clock::now());
  return absl::ToChronoTime(now + std::min(timeout, kLongestTimeout));
}

absl::Duration TimeLeftUntil(std::chrono::system_clock::time_point deadline) {
  return absl::FromChrono(deadline) - absl::FromChrono(std::chrono::system_clock::now());
}

absl::Time SimulatedClock::Now() {
  MutexLock lock(&mutex_);
  return now_;
}

bool SimulatedClock::WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) {
  mutex->AssertHeld();
  // A short real wait instead of a list of waiters: callers loop anyway, and a condition variable
  // that belongs to somebody else must not be touched after its owner's wait has ended.
  if (Now() < deadline) condition->WaitWithTimeout(mutex, absl::Milliseconds(2));
  return Now() >= deadline;
}

void SimulatedClock::Advance(absl::Duration by) {
  MutexLock lock(&mutex_);
  now_ += by;
}

}  // namespace millrace
