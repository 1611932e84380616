// Whether a slow worker should have the next step of a job, where the others would only wait for
// it then. In asynchronous mode the staleness bound ends the window of steps that may go, in
// synchronous mode the version does: once they have done all other steps of the window, the others
// stand still until the slow one is done too. Pure: times and workers are numbers to it.
#ifndef MILLRACE_COORDINATOR_DISPATCH_HOLD_BACK_H_
#define MILLRACE_COORDINATOR_DISPATCH_HOLD_BACK_H_

#include <cstdint>

#include "absl/time/time.h"

namespace millrace::coordinator {

// How long a worker takes for so many leases, in leases of the median worker. One that is not slow
// (see kSlow) counts as the median, so that chance does not choose between equals.
double TimeOfLeases(double leases, double slowness);

// A worker that could have a lease of a job now.
struct LeaseCandidate {
  double slowness = 0;        // See SlownessOf.
  uint64_t lease_size = 1;    // In steps: what it would be given.
  bool has_leases = false;    // Of the job.
  absl::Duration since_done;  // Since it last reported a step of the job.
  absl::Duration step_time;   // Its own, on average. REQUIRES: known, where it is slow.
};

// Whether it may have the lease whatever the others do. It may where it is not slow; where the
// window is so wide that it gets several steps, since then its leases are made smaller instead; and
// where it has had nothing for many of its steps: it may be slow no longer, and only a step tells.
bool IsNeverHeldBack(const LeaseCandidate& candidate);

// How many steps workers do together, in the time of a step of the median worker.
class CombinedPace {
 public:
  // One that gets on with its steps. One that is faster than the median counts as the median.
  void Add(double slowness);
  double steps() const { return steps_; }

 private:
  double steps_ = 0;
};

// Whether `others` would be through with the `left` steps that may go now before somebody is
// through who takes so long (see TimeOfLeases).
bool WouldWait(const CombinedPace& others, uint64_t left, double takes);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_HOLD_BACK_H_
