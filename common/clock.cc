#include "common/clock.h"

#include "absl/time/clock.h"

namespace millrace {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }

  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override {
    condition->WaitWithTimeout(mutex, deadline - Now());
    return Now() >= deadline;
  }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

absl::Time SimulatedClock::Now() {
  MutexLock lock(&mutex_);
  return now_;
}

bool SimulatedClock::WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) {
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
