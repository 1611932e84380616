// How fast the steps of a job go, and what follows from it: how long a lease lasts, and from when
// on a step is late. Pure: times are numbers to it.
#ifndef MILLRACE_COORDINATOR_DISPATCH_STEP_PACE_H_
#define MILLRACE_COORDINATOR_DISPATCH_STEP_PACE_H_

#include "absl/time/time.h"

namespace millrace::coordinator {

// The slowest step of late: a slow one counts for less with each that comes after it. A value type.
class StepPace {
 public:
  void Add(absl::Duration step);

  bool known() const { return known_; }
  absl::Duration slowest() const { return slowest_; }

 private:
  bool known_ = false;
  absl::Duration slowest_;
};

// How long a lease of a job lasts that a worker gets, or how much longer when it has done a step.
// `job` has seen the steps of all workers in the job, `worker` those of this one. `first` is for a
// job of which no step has been seen: its workers may still touch their memory for the first time,
// and nobody knows how long a step takes.
absl::Duration LeaseDuration(const StepPace& job, const StepPace& worker, absl::Duration first);

// A step that is out for this long is late: a worker that has nothing else to do may compute it
// too. For ever while no step of the job has been seen.
absl::Duration LateAfter(const StepPace& job);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_STEP_PACE_H_
