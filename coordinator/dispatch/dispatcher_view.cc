// How fast workers are, compared with each other, and what a Dispatcher tells people.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "coordinator/dispatch/dispatcher.h"

namespace millrace::coordinator {
namespace {

// A step counts for this much less with each that comes after it.
constexpr double kShareKept = 0.98;
// Weights grow with each step instead of all counts shrinking; from time to time they are brought
// down.
constexpr double kLargestWeight = 1e100;
// Of a job of which no step was seen, a lease is late after so long: for people only.
constexpr absl::Duration kLateFirstStep = absl::Seconds(2);
// People are told so often at most that a worker is slow; and not where steps are so short that it
// may be chance.
constexpr absl::Duration kSlowNoticePeriod = absl::Minutes(10);
constexpr absl::Duration kSlowStep = absl::Milliseconds(10);

}  // namespace

void Dispatcher::CountStep(JobDispatch& job, Standing& standing) {
  ++standing.steps_done;
  job.step_weight /= kShareKept;
  standing.recent_steps += job.step_weight;
  if (job.step_weight < kLargestWeight) return;
  for (auto& [worker, other] : job.standings) other.recent_steps /= job.step_weight;
  job.step_weight = 1;
}

void Dispatcher::RankWorkers(JobDispatch& job) {
  std::vector<WorkerPace> paces;
  for (const auto& [worker, standing] : job.standings) paces.push_back(standing.own_pace);
  const std::vector<double> slowness = SlownessOf(paces);
  job.has_slow = false;
  size_t i = 0;
  for (auto& [worker, standing] : job.standings) {
    standing.slowness = slowness[i++];
    job.has_slow |= standing.slowness > kSlow;
  }
  job.steps_unranked = 0;
}

void Dispatcher::TellSlowWorkers(JobDispatch& job, std::vector<std::string>& told) {
  const absl::Time now = options_.clock->Now();
  for (auto& [worker, standing] : job.standings) {
    if (standing.slowness <= kVerySlow || now - standing.told_slow < kSlowNoticePeriod) continue;
    if (standing.own_pace.mean() < kSlowStep) continue;
    standing.told_slow = now;
    told.push_back(absl::StrFormat(
        "%s is slow: its steps take %.1f times as long as those of the median worker, and it gets "
        "fewer of them",
        NameOf(worker), standing.slowness));
  }
}

std::string Dispatcher::WhyNobodyCan(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return "";
  std::vector<std::string> reasons;
  for (const auto& [worker, state] : workers_) {
    const auto standing = job->second.standings.find(worker);
    if (standing == job->second.standings.end() || standing->second.refusal.empty()) return "";
    reasons.push_back(absl::StrCat(state.capacity.name, ": ", standing->second.refusal));
  }
  return Printable(absl::StrJoin(reasons, "; "));
}

absl::optional<Dispatcher::Stall> Dispatcher::FindStall(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return absl::nullopt;
  const JobDispatch& job = found->second;
  if (const auto step = job.tracker.LowestPending()) {
    return Stall{absl::StrCat(NameOf(step->worker), ", which has step ", step->step, ","),
                 step->since};
  }
  if (!job.tracker.CanTake()) return absl::nullopt;
  if (const auto late = job.tracker.LowestExpired()) {
    return Stall{absl::StrCat(NameOf(late->worker), ", which has had step ", late->step,
                              " for longer than its lease and keeps its slot,"),
                 late->since};
  }
  std::vector<std::string> preparing;
  for (const auto& [worker, state] : workers_) {
    if (IsReady(job, worker)) {
      return Stall{"a worker that is free (they compute for other jobs, or pause after faults)",
                   absl::InfinitePast()};
    }
    if (!job.standings.contains(worker)) preparing.push_back(state.capacity.name);
  }
  if (preparing.empty()) return absl::nullopt;
  return Stall{absl::StrCat(Printable(absl::StrJoin(preparing, ", ")),
                            " to open the data and compile the model,"),
               absl::InfinitePast()};
}

std::vector<LeaseView> Dispatcher::LeasesOf(const JobDispatch& job, uint64_t worker) const {
  const absl::Time now = options_.clock->Now();
  std::vector<LeaseView> leases;
  for (const auto& [out, expired] : job.tracker.OutTo(worker)) {
    LeaseView lease;
    lease.step = out.step;
    lease.out = now - out.since;
    lease.expired = expired;
    lease.late = job.pace.known() ? LateAt(job, out) < now : lease.out > kLateFirstStep;
    leases.push_back(lease);
  }
  return leases;
}

WorkerView Dispatcher::ViewOf(const JobDispatch& job, uint64_t worker) const {
  WorkerView view;
  view.worker = worker;
  view.name = workers_.at(worker).capacity.name;
  view.draining = workers_.at(worker).draining;
  for (const auto& [id, other] : jobs_) {
    if (&other != &job) view.other_leases += other.tracker.LeasesOf(worker);
  }
  const auto evaluates = job.evaluating.find(worker);
  if (evaluates != job.evaluating.end()) view.evaluates = options_.clock->Now() - evaluates->second;
  view.leases = LeasesOf(job, worker);
  const auto found = job.standings.find(worker);
  if (found == job.standings.end()) return view;
  const Standing& standing = found->second;
  view.has_answered = standing.ready || !standing.refusal.empty();
  view.refusal = standing.refusal;
  view.faults = standing.faults;
  view.last_fault = standing.last_fault;
  view.steps_done = standing.steps_done;
  if (standing.own_pace.known()) view.step_time = standing.own_pace.mean();
  return view;
}

JobView Dispatcher::View(const std::string& job_id) {
  MutexLock lock(&mutex_);
  JobView view;
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return view;
  const JobDispatch& job = found->second;
  view.started = true;
  view.paused = job.paused;
  view.at_barrier = job.tracker.AtBarrier();
  view.can_take = job.tracker.CanTake();
  view.watermark = job.tracker.done().watermark();
  std::vector<WorkerPace> paces;
  double recent_steps = 0;
  for (const auto& [worker, state] : workers_) {
    view.workers.push_back(ViewOf(job, worker));
    const auto standing = job.standings.find(worker);
    const bool known = standing != job.standings.end();
    paces.push_back(known ? standing->second.own_pace : WorkerPace());
    view.workers.back().share = known ? standing->second.recent_steps : 0;
    recent_steps += view.workers.back().share;
  }
  const std::vector<double> slowness = SlownessOf(paces);
  for (size_t i = 0; i < view.workers.size(); ++i) {
    view.workers[i].slowness = slowness[i];
    if (recent_steps > 0) view.workers[i].share /= recent_steps;
  }
  return view;
}

}  // namespace millrace::coordinator
