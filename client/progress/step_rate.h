// How fast steps are applied, and so how long the rest will take.
#ifndef MILLRACE_CLIENT_PROGRESS_STEP_RATE_H_
#define MILLRACE_CLIENT_PROGRESS_STEP_RATE_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace millrace::client {

// The mean over the last half minute. Goes by the times of the events, so that a history that
// arrives at once is read as it happened. Not thread-safe.
class StepRate {
 public:
  // A step number that is lower than one before (a job that stepped back) starts anew.
  void Add(absl::Time time, uint64_t step);

  // How long the steps up to `total_steps` will take; nothing while that cannot be told.
  absl::optional<absl::Duration> TimeLeft(uint64_t total_steps) const;

 private:
  std::deque<std::pair<absl::Time, uint64_t>> samples_;  // Oldest first.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_STEP_RATE_H_
