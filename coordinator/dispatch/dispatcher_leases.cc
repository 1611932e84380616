// How leases are handed out, how many steps they have, and how long they last.
#include <algorithm>
#include <limits>

#include "common/proto_duration.h"
#include "coordinator/dispatch/dispatcher.h"

namespace millrace::coordinator {
namespace {

// A lease of one job holds up a worker for this long, where other jobs wait for it too.
constexpr absl::Duration kTurn = absl::Milliseconds(500);

}  // namespace

absl::Duration Dispatcher::DurationAlone(const JobDispatch& job, uint64_t worker) const {
  const auto standing = job.standings.find(worker);
  const StepPace pace = standing == job.standings.end() ? StepPace() : standing->second.pace;
  return LeaseDuration(job.pace, pace, options_.first_lease);
}

// A worker computes one step at a time, so a lease may have to wait for its turn behind those of
// other jobs, and behind an evaluation where nobody else could have it.
absl::Duration Dispatcher::DurationFor(const JobDispatch& job, uint64_t worker) const {
  absl::Duration longest;
  for (const auto& [id, other] : jobs_) {
    if (&other != &job && other.tracker.LeasesOf(worker) == 0) continue;
    longest = std::max(longest, DurationAlone(other, worker));
  }
  if (!IsEvaluating(worker) || SomeoneElseTrains(job)) return longest;
  return std::max(longest, options_.first_lease);
}

// Jobs take turns on a worker, so that each other one that it can run may come before this one,
// once. A worker of which nothing is heard here for longer cannot do the job's steps, however well
// it does others: it may not reach a server that only this job uses.
StepTracker::Heard Dispatcher::HeardOf(const JobDispatch& job, uint64_t worker) const {
  StepTracker::Heard heard;
  const auto state = workers_.find(worker);
  if (state != workers_.end()) heard.anywhere = state->second.last_done;
  const auto here = job.standings.find(worker);
  if (here != job.standings.end()) heard.here = here->second.last_done;
  for (const auto& [id, other] : jobs_) {
    const auto standing = other.standings.find(worker);
    if (&other == &job || standing == other.standings.end() || !standing->second.ready) continue;
    heard.patience += DurationAlone(other, worker);
  }
  heard.patience = std::min(heard.patience, options_.first_lease);
  return heard;
}

// Large leases save messages; but jobs take turns by leases.
uint64_t Dispatcher::LeaseSize(const JobDispatch& job, uint64_t for_worker) const {
  const uint64_t size = StepsForSlowness(job.tracker.LeaseSize(ReadySlots(job)),
                                         job.standings.at(for_worker).slowness);
  if (jobs_.size() == 1 || job.cost.slowest() <= absl::ZeroDuration()) return size;
  return std::clamp<uint64_t>(std::max<int64_t>(kTurn / job.cost.slowest(), 1), 1, size);
}

absl::Time Dispatcher::LateAt(const JobDispatch& job, const StepTracker::Pending& out) const {
  return HeardOf(job, out.worker).OfWhatWasTaken(out.since) + LateAfter(job.pace);
}

// A second copy of a step is computed only by those for whom no job has anything else.
void Dispatcher::HandOut() {
  SlotsByWorker free = FreeSlots();
  for (const Hand hand :
       {&Dispatcher::LeaseNext, &Dispatcher::LeaseBackup, &Dispatcher::LeaseLateAgain}) {
    while (!free.empty() && HandOutOne(hand, free)) {
    }
  }
  for (auto& [id, job] : jobs_) {
    const bool is_held = job.held_since < absl::InfiniteFuture();
    if (job.tracker.BarrierHolds() != is_held) {
      job.held_since = is_held ? absl::InfiniteFuture() : options_.clock->Now();
    }
  }
}

bool Dispatcher::HandOutOne(Hand hand, SlotsByWorker& free) {
  auto job = jobs_.upper_bound(served_);
  for (size_t i = 0; i < jobs_.size(); ++i, ++job) {
    if (job == jobs_.end()) job = jobs_.begin();
    if (job->second.paused || !(this->*hand)(job->second, free)) continue;
    served_ = job->first;
    return true;
  }
  return false;
}

// These return whether they have handed something out, and take the slot out of `free`.
bool Dispatcher::LeaseNext(JobDispatch& job, SlotsByWorker& free) {
  if (!job.tracker.CanTake()) return false;
  const auto worker = BestWorkerNotHeld(job, free);
  if (!worker) return false;
  const absl::Time now = options_.clock->Now();
  const absl::Duration duration = DurationFor(job, *worker);
  const auto taken = job.tracker.Take(*worker, LeaseSize(job, *worker), now, now + duration);
  SendLease(job, *worker, *taken, duration);
  if (--free[*worker] == 0) free.erase(*worker);
  return true;
}

bool Dispatcher::LeaseLateAgain(JobDispatch& job, SlotsByWorker& free) {
  const absl::Time now = options_.clock->Now();
  for (const StepTracker::Pending& out : job.tracker.OutOnce()) {
    // The first is cheap, and enough for most.
    if (out.since + LateAfter(job.pace) > now || LateAt(job, out) > now) continue;
    SlotsByWorker others = free;
    others.erase(out.worker);
    if (LeaseAgain(job, out, others, std::numeric_limits<uint64_t>::max(), free)) return true;
  }
  return false;
}

// To one of `others`, where one of them can have it.
bool Dispatcher::LeaseAgain(JobDispatch& job, const StepTracker::Pending& out,
                            const SlotsByWorker& others, uint64_t max_steps, SlotsByWorker& free) {
  const auto worker = BestWorker(job, others);
  if (!worker) return false;
  const absl::Time now = options_.clock->Now();
  const absl::Duration duration = DurationFor(job, *worker);
  const uint64_t steps = std::min(max_steps, LeaseSize(job, *worker));
  const auto taken = job.tracker.TakeAgain(out, *worker, steps, now, now + duration);
  SendLease(job, *worker, taken, duration);
  if (--free[*worker] == 0) free.erase(*worker);
  return true;
}

// Only to workers that have nothing else: whatever they compute in vain, they would have waited.
// The steps of slow workers come first, then those that are out the longest.
bool Dispatcher::LeaseBackup(JobDispatch& job, SlotsByWorker& free) {
  const StepRules& rules = job.tracker.rules();
  if (rules.replicas == 0 || job.tracker.OutTwice() >= rules.backup) return false;
  SlotsByWorker idle;
  for (const auto& [worker, slots] : free) {
    if (slots == workers_.at(worker).capacity.slots) idle[worker] = slots;
  }
  if (idle.empty()) return false;
  const auto slowness = [&job](uint64_t worker) {
    const auto standing = job.standings.find(worker);
    return standing == job.standings.end() ? 0 : standing->second.slowness;
  };
  std::vector<StepTracker::Pending> out = job.tracker.OutOnce();
  std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
    const bool a_is_slow = slowness(a.worker) > kSlow;
    const bool b_is_slow = slowness(b.worker) > kSlow;
    return a_is_slow != b_is_slow ? a_is_slow : a.since < b.since;
  });
  for (const StepTracker::Pending& step : out) {
    SlotsByWorker others = idle;
    std::erase_if(others, [&](const auto& other) {
      return other.first == step.worker ||
             (slowness(other.first) > kSlow && slowness(other.first) >= slowness(step.worker));
    });
    if (LeaseAgain(job, step, others, /*max_steps=*/1, free)) return true;
  }
  return false;
}

void Dispatcher::SendLease(const JobDispatch& job, uint64_t worker, const StepTracker::Lease& taken,
                           absl::Duration duration) {
  CoordinatorMessage message;
  Lease& lease = *message.mutable_lease();
  lease.set_job_id(job.route.set_route().job_id());
  lease.set_generation(job.tracker.generation());
  lease.set_lease_id(taken.id);
  lease.set_begin(taken.begin);
  lease.set_end(taken.end);
  *lease.mutable_duration() = ToProto(duration);
  outbox_->Send(worker, message);
}

}  // namespace millrace::coordinator
