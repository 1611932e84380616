#include "coordinator/dispatch/step_pace.h"

#include <algorithm>

namespace millrace::coordinator {
namespace {

// How much of a slow step is remembered from one step to the next.
constexpr double kSlownessKept = 0.8;
// A lease lasts this many slow steps, and never less than the time for which a busy machine or a
// lost packet may hold up a worker that is well. A worker's first step in a job takes longer.
constexpr int kLeaseSteps = 4;
constexpr absl::Duration kShortestLease = absl::Seconds(2);
constexpr absl::Duration kShortestFirstLease = absl::Seconds(5);
// Computing a step twice costs only time that nobody else wants, so less patience is right.
constexpr int kLateSteps = 2;
constexpr absl::Duration kSoonestLate = absl::Milliseconds(250);

}  // namespace

void StepPace::Add(absl::Duration step) {
  slowest_ = std::max(step, kSlownessKept * slowest_);
  known_ = true;
}

absl::Duration LeaseDuration(const StepPace& job, const StepPace& worker, absl::Duration first) {
  if (!job.known()) return first;
  const absl::Duration shortest = worker.known() ? kShortestLease : kShortestFirstLease;
  return std::max(std::min(shortest, first),
                  kLeaseSteps * std::max(job.slowest(), worker.slowest()));
}

absl::Duration LateAfter(const StepPace& job) {
  if (!job.known()) return absl::InfiniteDuration();
  return std::max(kSoonestLate, kLateSteps * job.slowest());
}

}  // namespace millrace::coordinator
