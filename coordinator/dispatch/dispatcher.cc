#include "coordinator/dispatch/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr size_t kMaxFaultBytes = 300;

// After the nth fault in a row. The first costs nothing: it may have been the servers' trouble.
absl::Duration PauseAfter(int faults) {
  if (faults <= 1) return absl::ZeroDuration();
  return std::min(kLongestPause, kFirstPause * (1 << std::min(faults - 2, 10)));
}

}  // namespace

Dispatcher::Dispatcher(Outbox* outbox, const Options& options)
    : outbox_(outbox), options_(options) {}

void Dispatcher::SetWorkers(const std::vector<WorkerCapacity>& workers) {
  MutexLock lock(&mutex_);
  std::map<uint64_t, Worker> before = std::exchange(workers_, {});
  for (const WorkerCapacity& worker : workers) {
    const auto known = before.find(worker.worker);
    Worker& state = workers_[worker.worker];
    const bool is_new = known == before.end();
    if (!is_new) {
      state = known->second;
      before.erase(known);
    }
    state.capacity = worker;
    if (!is_new) continue;
    for (const auto& [id, job] : jobs_) outbox_->Send(worker.worker, job.route);
  }
  for (const auto& [worker, state] : before) {  // Those that are gone.
    for (auto& [id, job] : jobs_) {
      job.tracker.GiveBackAll(worker);
      job.standings.erase(worker);
      job.evaluating.erase(worker);
    }
  }
  HandOut();
}

void Dispatcher::SetDraining(uint64_t worker) {
  MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.draining = true;
}

void Dispatcher::Start(const StepRules& rules, const SetRoute& route, const AppliedSet& done,
                       uint64_t barrier) {
  MutexLock lock(&mutex_);
  JobDispatch& job = jobs_.try_emplace(route.job_id(), rules).first->second;
  job.tracker.Reset(route.routing().generation(), done);
  job.tracker.SetBarrier(barrier);
  job.held_since = absl::InfiniteFuture();
  *job.route.mutable_set_route() = route;
  job.paused = false;
  SendToAll(job.route);
  HandOut();
}

void Dispatcher::Pause(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job != jobs_.end()) job->second.paused = true;
}

void Dispatcher::Remove(const std::string& job_id) {
  MutexLock lock(&mutex_);
  if (jobs_.erase(job_id) == 0) return;
  CoordinatorMessage message;
  message.mutable_forget_job()->set_job_id(job_id);
  SendToAll(message);
  HandOut();
}

bool Dispatcher::SetPrepared(uint64_t worker, const JobPrepared& prepared) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(prepared.job_id());
  if (job == jobs_.end() || !workers_.contains(worker)) return false;
  Standing& standing = job->second.standings[worker];
  standing.ready = prepared.code() == 0;
  std::string refusal = standing.ready ? "" : prepared.message();
  if (!standing.ready && refusal.empty()) refusal = absl::StrCat("code ", prepared.code());
  bool news = !standing.ready && standing.refusal != refusal;
  if (standing.ready && standing.remark != prepared.message()) {
    standing.remark = prepared.message();
    news = !standing.remark.empty();
  }
  standing.refusal = std::move(refusal);
  if (!standing.ready) {
    job->second.tracker.GiveBackAll(worker);
    job->second.evaluating.erase(worker);
  }
  HandOut();
  return news;
}

void Dispatcher::SetBarrier(const std::string& job_id, uint64_t barrier) {
  MutexLock lock(&mutex_);
  JobDispatch& job = jobs_.at(job_id);
  job.tracker.SetBarrier(barrier);
  job.held_since = absl::InfiniteFuture();
  HandOut();
}

uint64_t Dispatcher::SetBarrierHere(const std::string& job_id, uint64_t at_least,
                                    uint64_t at_most) {
  MutexLock lock(&mutex_);
  JobDispatch& job = jobs_.at(job_id);
  const uint64_t version = std::max<uint64_t>(job.tracker.rules().replicas, 1);
  const uint64_t next = (job.tracker.next() + version - 1) / version * version;
  const uint64_t barrier = std::clamp(next, std::max<uint64_t>(at_least, 1), at_most);
  job.tracker.SetBarrier(barrier);
  HandOut();
  return barrier;
}

// The step took the time since the worker's step before, or since its lease where that is later.
// Where jobs share a worker they slow each other down, and a lease must allow for that: it follows
// the time since the step before of the same job.
void Dispatcher::MeasureStep(JobDispatch& job, uint64_t worker, const StepResult& result) {
  const auto taken = job.tracker.TakenAt(worker, result.lease_id(), result.step());
  const auto state = workers_.find(worker);
  const auto standing = job.standings.find(worker);
  if (!taken || state == workers_.end() || standing == job.standings.end()) return;
  const absl::Time now = options_.clock->Now();
  const absl::Duration step = now - std::max(*taken, standing->second.last_done);
  standing->second.pace.Add(step);
  job.pace.Add(step);
  job.cost.Add(now - std::max(*taken, state->second.last_done));
  standing->second.last_done = state->second.last_done = now;
  const auto own = OwnTime(result.times(), job.route.set_route().spec().has_synchronous());
  if (!own) return;
  standing->second.own_pace.Add(*own);
  if (++job.steps_unranked >= job.standings.size()) RankWorkers(job);
}

bool Dispatcher::HasLease(uint64_t worker, const std::string& job_id, uint64_t lease_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  return job != jobs_.end() &&
         job->second.tracker.ClaimOf(worker, lease_id) == StepTracker::Claim::kOwn;
}

bool Dispatcher::HasStep(uint64_t worker, const StepResult& result) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(result.job_id());
  return job != jobs_.end() &&
         job->second.tracker.TakenAt(worker, result.lease_id(), result.step()).has_value();
}

absl::optional<Dispatcher::DoneResult> Dispatcher::Done(uint64_t worker, const StepResult& result) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(result.job_id());
  if (job == jobs_.end()) return absl::nullopt;
  StepTracker& tracker = job->second.tracker;
  MeasureStep(job->second, worker, result);
  DoneResult done;
  if (tracker.ClaimOf(worker, result.lease_id()) != StepTracker::Claim::kNone) {
    done.first = tracker.Done(result.lease_id(), result.step(),
                              options_.clock->Now() + DurationFor(job->second, worker));
  }
  const auto standing = job->second.standings.find(worker);
  if (done.first && standing != job->second.standings.end()) {
    standing->second.faults = 0;
    standing->second.returns = 0;
    standing->second.not_before = absl::InfinitePast();
    CountStep(job->second, standing->second);
  }
  done.generation = tracker.generation();
  done.progress = ProgressOf(job->second);
  HandOut();
  return done;
}

int Dispatcher::GiveBack(uint64_t worker, const LeaseReturned& returned) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(returned.job_id());
  if (job == jobs_.end()) return 0;
  StepTracker& tracker = job->second.tracker;
  if (tracker.ClaimOf(worker, returned.lease_id()) != StepTracker::Claim::kOwn) return 0;
  const auto found = job->second.standings.find(worker);
  int faults = 0;
  if (found != job->second.standings.end()) {
    Standing& standing = found->second;
    if (returned.code() == 0 && !job->second.evaluating.contains(worker)) ++standing.returns;
    if (IsFault(tracker, worker, returned, standing.returns)) {
      faults = ++standing.faults;
      standing.last_fault = Printable(returned.message(), kMaxFaultBytes);
      standing.not_before = options_.clock->Now() + PauseAfter(faults);
    }
  }
  tracker.GiveBack(returned.lease_id());
  HandOut();
  return faults;
}

bool Dispatcher::IsFault(const StepTracker& tracker, uint64_t worker, const LeaseReturned& returned,
                         int returns) const {
  // Too late is not wrong: a shard may have left the version behind.
  if (tracker.IsDoneByOthers(returned.lease_id())) return false;
  if (returned.code() != 0) return true;
  const auto state = workers_.find(worker);
  const bool stays = state != workers_.end() && !state->second.draining;
  return stays && returns > kFreeReturns;
}

Dispatcher::TickResult Dispatcher::Tick(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return {absl::InfiniteFuture(), "", {}};
  JobDispatch& job = found->second;
  const absl::Time now = options_.clock->Now();
  for (const auto& [worker, state] : workers_) {
    job.tracker.Renew(worker, HeardOf(job, worker), DurationFor(job, worker));
  }
  TickResult result;
  for (const StepTracker::Pending& expired : job.tracker.Expire(now)) {
    result.trouble =
        absl::StrCat("nothing was heard of step ", expired.step, " from ", NameOf(expired.worker),
                     " for ", absl::FormatDuration(DurationFor(job, expired.worker)),
                     "; it goes to any worker that is free");
  }
  HandOut();
  TellSlowWorkers(job, result.slow);
  result.next = job.tracker.NextExpiry();
  for (const StepTracker::Pending& out : job.tracker.OutOnce()) {
    const absl::Time late_at = LateAt(job, out);
    if (late_at > now) result.next = std::min(result.next, late_at);
  }
  for (const auto& [worker, standing] : job.standings) {
    if (standing.not_before > now) result.next = std::min(result.next, standing.not_before);
  }
  return result;
}

absl::optional<Dispatcher::Progress> Dispatcher::GetProgress(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return absl::nullopt;
  return ProgressOf(job->second);
}

AppliedSet Dispatcher::DoneSteps(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  return job == jobs_.end() ? AppliedSet() : job->second.tracker.done();
}

Dispatcher::Progress Dispatcher::ProgressOf(const JobDispatch& job) {
  const StepTracker& tracker = job.tracker;
  return {tracker.done().size(), tracker.done().watermark(),
          tracker.AtBarrier(),   LateAfter(job.pace),
          job.held_since,        tracker.LeasesAreUsedUp()};
}

std::string Dispatcher::NameOf(uint64_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? "a worker" : found->second.capacity.name;
}

void Dispatcher::SendToAll(const CoordinatorMessage& message) {
  for (const auto& [worker, state] : workers_) outbox_->Send(worker, message);
}

}  // namespace millrace::coordinator
