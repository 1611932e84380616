#include "coordinator/dispatch/hold_back.h"

#include <algorithm>

#include "coordinator/dispatch/worker_pace.h"

namespace millrace::coordinator {
namespace {

// A slow worker that gets no steps is given one after the time of so many of its own.
constexpr int kStepsBetweenTrials = 20;

}  // namespace

double TimeOfLeases(double leases, double slowness) {
  return leases * (slowness > kSlow ? slowness : 1);
}

bool IsNeverHeldBack(const LeaseCandidate& candidate) {
  if (candidate.slowness <= kSlow || candidate.lease_size > 1) return true;
  return !candidate.has_leases && candidate.since_done > kStepsBetweenTrials * candidate.step_time;
}

void CombinedPace::Add(double slowness) { steps_ += 1 / std::max(slowness, 1.0); }

bool WouldWait(const CombinedPace& others, uint64_t left, double takes) {
  return others.steps() * takes > static_cast<double>(left);
}

}  // namespace millrace::coordinator
