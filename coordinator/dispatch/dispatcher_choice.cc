// Which worker gets the next lease of a job: one that is ready for it and has a free slot, rather
// one without faults, and of these the emptiest; but none for which the others would only wait (see
// hold_back.h).
#include <algorithm>

#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/dispatch/hold_back.h"

namespace millrace::coordinator {

bool Dispatcher::IsReady(const JobDispatch& job, uint64_t worker) const {
  const auto standing = job.standings.find(worker);
  return standing != job.standings.end() && standing->second.ready && !workers_.at(worker).draining;
}

bool Dispatcher::IsEvaluating(uint64_t worker) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& job) { return job.second.evaluating.count(worker) > 0; });
}

bool Dispatcher::SomeoneElseTrains(const JobDispatch& job) const {
  for (const auto& [worker, state] : workers_) {
    if (IsReady(job, worker) && !IsEvaluating(worker)) return true;
  }
  return false;
}

// Where steps are pulled ahead a worker has one lease beside its slots: while it computes a step
// and the push of the one before is under way, it is to know the next one. Not where some would
// have it at the cost of others, who would wait for them.
bool Dispatcher::LeasesAhead(const JobDispatch& job) const {
  const StepRules& rules = job.tracker.rules();
  return rules.pulls_ahead && ReadySlots(job, /*more=*/1) <= uint64_t{rules.staleness_bound} + 1;
}

uint64_t Dispatcher::ReadySlots(const JobDispatch& job, uint32_t more) const {
  uint64_t slots = 0;
  for (const auto& [worker, state] : workers_) {
    if (IsReady(job, worker)) slots += uint64_t{state.capacity.slots} + more;
  }
  return slots;
}

Dispatcher::SlotsByWorker Dispatcher::FreeSlots() const {
  SlotsByWorker free;
  std::vector<std::pair<const JobDispatch*, bool>> jobs;  // And whether it leases ahead.
  for (const auto& [id, job] : jobs_) jobs.emplace_back(&job, LeasesAhead(job));
  for (const auto& [worker, state] : workers_) {
    uint32_t used = 0;
    for (const auto& [job, ahead] : jobs) {
      const uint32_t leases = job->tracker.LeasesOf(worker);
      used += ahead && leases > 1 ? leases - 1 : leases;
    }
    if (used < state.capacity.slots) free[worker] = state.capacity.slots - used;
  }
  return free;
}

// When a worker is done with what it has and one lease more, in leases of the median worker.
double Dispatcher::BusyUntil(const JobDispatch& job, uint64_t worker, uint32_t free_slots) const {
  const double leases = workers_.at(worker).capacity.slots - free_slots + 1;
  return TimeOfLeases(leases, job.standings.at(worker).slowness);
}

absl::optional<uint64_t> Dispatcher::BestWorker(const JobDispatch& job,
                                                const SlotsByWorker& free) const {
  const absl::Time now = options_.clock->Now();
  absl::optional<uint64_t> best;
  for (const auto& [worker, slots] : free) {
    if (!IsReady(job, worker)) continue;
    const Standing& standing = job.standings.at(worker);
    if (now < standing.not_before) continue;
    if (IsEvaluating(worker) && SomeoneElseTrains(job)) continue;
    if (best) {
      const bool faulty = standing.faults > 0;
      const bool best_is_faulty = job.standings.at(*best).faults > 0;
      const bool is_no_better =
          job.has_slow ? BusyUntil(job, worker, slots) >= BusyUntil(job, *best, free.at(*best))
                       : slots <= free.at(*best);
      if (faulty != best_is_faulty ? faulty : is_no_better) continue;
    }
    best = worker;
  }
  return best;
}

// Whether the worker gives steps of the job back, or is late with one. It may not reach a server.
bool Dispatcher::HasTrouble(const JobDispatch& job, uint64_t worker) const {
  const absl::Time now = options_.clock->Now();
  const Standing& standing = job.standings.at(worker);
  if (standing.faults > 0 || now < standing.not_before) return true;
  for (const auto& [out, expired] : job.tracker.OutTo(worker)) {
    if (expired || LateAt(job, out) <= now) return true;
  }
  return false;
}

// Whether the worker has steps of the job that come before the next one to take (so that they do
// not wait for it), and no trouble with any.
bool Dispatcher::GetsOnWithItsSteps(const JobDispatch& job, uint64_t worker) const {
  if (HasTrouble(job, worker) || IsEvaluating(worker)) return false;
  const auto steps = job.tracker.OutTo(worker);
  return std::any_of(steps.begin(), steps.end(), [&job](const auto& step) {
    return step.first.step < job.tracker.NextToTake();
  });
}

// See hold_back.h. Where a worker is held back, what others report next hands out again.
bool Dispatcher::WouldHoldUpOthers(const JobDispatch& job, uint64_t worker,
                                   uint32_t free_slots) const {
  const Standing& standing = job.standings.at(worker);
  const WorkerPace& pace = standing.own_pace;
  if (IsNeverHeldBack({.slowness = standing.slowness,
                       .lease_size = LeaseSize(job, worker),
                       .has_leases = job.tracker.LeasesOf(worker) > 0,
                       .since_done = options_.clock->Now() - standing.last_done,
                       .step_time = pace.known() ? pace.mean() : absl::ZeroDuration()})) {
    return false;
  }
  CombinedPace others;
  for (const auto& [other, state] : workers_) {
    if (other == worker || !IsReady(job, other) || !GetsOnWithItsSteps(job, other)) continue;
    others.Add(job.standings.at(other).slowness);
  }
  return WouldWait(others, job.tracker.LeftInWindow(), BusyUntil(job, worker, free_slots));
}

// Of those that would not hold up others.
absl::optional<uint64_t> Dispatcher::BestWorkerNotHeld(const JobDispatch& job,
                                                       SlotsByWorker free) const {
  auto worker = BestWorker(job, free);
  while (worker && job.has_slow && WouldHoldUpOthers(job, *worker, free.at(*worker))) {
    free.erase(*worker);
    worker = BestWorker(job, free);
  }
  return worker;
}

}  // namespace millrace::coordinator
