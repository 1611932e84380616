// Whether a job gets on, for the account of its time. Pure: times are numbers to it.
#ifndef MILLRACE_COORDINATOR_JOB_PROGRESS_WATCH_H_
#define MILLRACE_COORDINATOR_JOB_PROGRESS_WATCH_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "coordinator/job/time_account.h"

namespace millrace::coordinator {

// Looks now and then at how many steps are done. Between two looks some were, or none was: then
// somebody keeps the job waiting, as soon as that takes longer than steps do. Not thread-safe.
class ProgressWatch {
 public:
  // Training begins, or begins again, with so many steps. `before`: there were so many already.
  void Start(uint64_t steps, uint64_t before, absl::Time now) {
    steps_ = steps;
    most_ = std::max(most_, before);
    moved_at_ = now;
  }

  // What the time since the last look was spent on: kTraining, or kRunningAgain while there are
  // fewer steps than there were once. Nothing: no step was done for longer than steps take
  // (`late_after`) or than anybody should wait, or `stands`: none can be done.
  absl::optional<TimeUse> Look(uint64_t steps, bool stands, absl::Duration late_after,
                               absl::Time now) {
    const bool moved = steps != steps_;
    const bool is_patient = now - moved_at_ <= std::min(late_after, kPatience);
    if (moved || stands) moved_at_ = now;
    steps_ = steps;
    if (!moved && (stands || !is_patient)) return absl::nullopt;
    const bool again = steps < most_;
    most_ = std::max(most_, steps);
    return again ? TimeUse::kRunningAgain : TimeUse::kTraining;
  }

 private:
  // So long a job without a step counts as training, where nobody knows how long its steps take.
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  uint64_t steps_ = 0;   // At the last look.
  uint64_t most_ = 0;    // That there ever were.
  absl::Time moved_at_;  // When there were more than before, or none could be done.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_PROGRESS_WATCH_H_
