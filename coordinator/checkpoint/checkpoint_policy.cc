#include "coordinator/checkpoint/checkpoint_policy.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"

namespace millrace::coordinator {

CheckpointPolicy::CheckpointPolicy(const JobSpec& spec)
    : every_steps_(CheckpointEverySteps(spec)), period_(CheckpointPeriod(spec)) {
  SetNextStep(0);
}

void CheckpointPolicy::SetNextStep(uint64_t step) {
  next_step_ = every_steps_ == 0 ? std::numeric_limits<uint64_t>::max()
                                 : (step / every_steps_ + 1) * every_steps_;
}

// The clock may show less than when the one before was begun, by another life of the process.
void CheckpointPolicy::Start(uint64_t step, absl::Time begun, absl::Time now) {
  SetNextStep(step);
  next_time_ = std::min(begun, now) + period_;
  not_before_ = absl::InfinitePast();
}

std::string CheckpointPolicy::WhyDue(uint64_t step, absl::Time now) const {
  if (now < not_before_) return "";
  if (step >= next_step_) return absl::StrCat("every ", every_steps_, " steps");
  if (now >= next_time_) return absl::StrCat("every ", absl::FormatDuration(period_));
  return "";
}

void CheckpointPolicy::Began(uint64_t step, absl::Time now) {
  SetNextStep(step);
  next_time_ = now + period_;
}

}  // namespace millrace::coordinator
