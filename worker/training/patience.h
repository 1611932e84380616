// Waiting for ps servers without silence.
#ifndef MILLRACE_WORKER_TRAINING_PATIENCE_H_
#define MILLRACE_WORKER_TRAINING_PATIENCE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace millrace::worker {

struct Patience {
  Clock* clock = Clock::Real();
  absl::Duration timeout = absl::Minutes(10);  // In all.
  // A wait that takes longer than this is logged, and again whenever it has taken twice as long.
  absl::Duration notice = absl::Seconds(5);
  // Says who waits: "worker-0: job 1: step 17".
  std::string waiter;
};

// Calls `wait(until)` with times until which it may wait, until it returns something else than
// DEADLINE_EXCEEDED or patience.timeout has passed. A DEADLINE_EXCEEDED in between is logged, with
// its message. `stop_early` is asked after each: when it returns true, the wait is over.
absl::Status WaitPatiently(const Patience& patience, absl::FunctionRef<bool()> stop_early,
                           absl::FunctionRef<absl::Status(absl::Time until)> wait);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PATIENCE_H_
