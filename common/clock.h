// Time, injected wherever something waits or measures, so that tests need not.
#ifndef MILLRACE_COMMON_CLOCK_H_
#define MILLRACE_COMMON_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace millrace {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() = 0;

  // Waits on `condition`, with `mutex` held, until signalled or until this clock shows `deadline`;
  // may return early for no reason. Returns true when the deadline has passed.
  virtual bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;

  // The machine's clock; never destroyed. It showed the time of day when it was first asked, and
  // goes on evenly from there: when somebody sets the machine's time, no deadline moves.
  static Clock* Real();
};

// `timeout` from now as the time of day, for gRPC, which takes deadlines so; and what is left until
// one. gRPC compares them with the machine's clock as it is. absl::Now() may be behind that for two
// seconds after somebody has set it, by as much as it was set.
std::chrono::system_clock::time_point SystemDeadline(absl::Duration timeout);
absl::Duration TimeLeftUntil(std::chrono::system_clock::time_point deadline);

// Stands still until told to move. Waiters wake when it passes their deadlines.
class SimulatedClock final : public Clock {
 public:
  explicit SimulatedClock(absl::Time start = absl::UnixEpoch()) : now_(start) {}

  absl::Time Now() override ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  void Advance(absl::Duration by) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_CLOCK_H_
