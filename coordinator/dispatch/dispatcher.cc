#include "coordinator/dispatch/dispatcher.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/proto_duration.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
// A lease of one job holds up a worker for this long, where other jobs wait for it too.
constexpr absl::Duration kTurn = absl::Milliseconds(500);
constexpr size_t kMaxFaultBytes = 300;
// A slow worker that gets no steps is given one after the time of so many of its own.
constexpr int kStepsBetweenTrials = 20;

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
  if (!standing.ready) job->second.tracker.GiveBackAll(worker);
  HandOut();
  return news;
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
  const uint64_t barrier = std::clamp(job.tracker.next(), std::max<uint64_t>(at_least, 1), at_most);
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

// One that was asked before may be stuck in it, and its turn comes again whenever another job has
// evaluated meanwhile; it beats and trains, and would keep each evaluation waiting anew.
absl::optional<uint64_t> Dispatcher::SendEvaluate(const Evaluate& evaluate) {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(evaluate.job_id());
  if (found == jobs_.end()) return absl::nullopt;
  JobDispatch& job = found->second;
  if (job.evaluation_id != evaluate.evaluation_id()) job.evaluating.clear();
  job.evaluation_id = evaluate.evaluation_id();
  const auto comes_later = [&job, last = evaluated_](uint64_t worker, const Worker& state) {
    return std::make_tuple(job.evaluating.contains(worker), !state.answers_evaluations,
                           worker <= last);
  };
  absl::optional<uint64_t> chosen;
  std::tuple<bool, bool, bool> of_chosen;
  for (const auto& [worker, state] : workers_) {
    if (!IsReady(job, worker)) continue;
    if (chosen && comes_later(worker, state) >= of_chosen) continue;
    chosen = worker;
    of_chosen = comes_later(worker, state);
  }
  if (!chosen) return absl::nullopt;
  evaluated_ = *chosen;
  job.evaluating.try_emplace(*chosen, options_.clock->Now());
  CoordinatorMessage message;
  *message.mutable_evaluate() = evaluate;
  outbox_->Send(*chosen, message);
  return chosen;
}

void Dispatcher::SetAnswersEvaluations(uint64_t worker, bool answers) {
  MutexLock lock(&mutex_);
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.answers_evaluations = answers;
}

void Dispatcher::EndEvaluation(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return;
  job->second.evaluating.clear();
  HandOut();
}

void Dispatcher::TakeEvaluationBack(uint64_t worker, const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return;
  job->second.evaluating.erase(worker);
  HandOut();
}

bool Dispatcher::HasEvaluation(uint64_t worker, const std::string& job_id, uint64_t evaluation_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  return job != jobs_.end() && job->second.evaluating.count(worker) > 0 &&
         job->second.evaluation_id == evaluation_id;
}

Dispatcher::Progress Dispatcher::ProgressOf(const JobDispatch& job) {
  const StepTracker& tracker = job.tracker;
  return {tracker.done().size(), tracker.done().watermark(), tracker.AtBarrier(),
          LateAfter(job.pace), job.held_since};
}

std::string Dispatcher::NameOf(uint64_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? "a worker" : found->second.capacity.name;
}

void Dispatcher::SendToAll(const CoordinatorMessage& message) {
  for (const auto& [worker, state] : workers_) outbox_->Send(worker, message);
}

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
  uint64_t slots = 0;
  for (const auto& [worker, state] : workers_) {
    if (IsReady(job, worker)) slots += state.capacity.slots;
  }
  const uint64_t size =
      StepsForSlowness(job.tracker.LeaseSize(slots), job.standings.at(for_worker).slowness);
  if (jobs_.size() == 1 || job.cost.slowest() <= absl::ZeroDuration()) return size;
  return std::clamp<uint64_t>(std::max<int64_t>(kTurn / job.cost.slowest(), 1), 1, size);
}

absl::Time Dispatcher::LateAt(const JobDispatch& job, const StepTracker::Pending& out) const {
  return HeardOf(job, out.worker).OfWhatWasTaken(out.since) + LateAfter(job.pace);
}

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

Dispatcher::SlotsByWorker Dispatcher::FreeSlots() const {
  SlotsByWorker free;
  for (const auto& [worker, state] : workers_) {
    uint32_t used = 0;
    for (const auto& [id, job] : jobs_) used += job.tracker.LeasesOf(worker);
    if (used < state.capacity.slots) free[worker] = state.capacity.slots - used;
  }
  return free;
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

// Whether the worker has steps of the job that come before the next one to take (so that they do
// not wait for it), and is late with none.
bool Dispatcher::GetsOnWithItsSteps(const JobDispatch& job, uint64_t worker) const {
  const absl::Time now = options_.clock->Now();
  const Standing& standing = job.standings.at(worker);
  if (standing.faults > 0 || now < standing.not_before || IsEvaluating(worker)) return false;
  bool has_earlier = false;
  for (const auto& [out, expired] : job.tracker.OutTo(worker)) {
    if (expired || LateAt(job, out) <= now) return false;
    has_earlier |= out.step < job.tracker.NextToTake();
  }
  return has_earlier;
}

// Whether the others would be through with all that may go now before this worker is through with
// one step: then they would only wait for it. Where the window is wider, its leases are made
// smaller instead. What the others report next hands out again.
bool Dispatcher::WouldHoldUpOthers(const JobDispatch& job, uint64_t worker,
                                   uint32_t free_slots) const {
  const Standing& standing = job.standings.at(worker);
  if (standing.slowness <= kSlow || LeaseSize(job, worker) > 1) return false;
  const absl::Duration since = options_.clock->Now() - standing.last_done;
  const bool is_idle = job.tracker.LeasesOf(worker) == 0;
  if (is_idle && since > kStepsBetweenTrials * standing.own_pace.mean()) return false;
  double others_pace = 0;  // In steps, in the time of a step of the median worker.
  for (const auto& [other, state] : workers_) {
    if (other == worker || !IsReady(job, other) || !GetsOnWithItsSteps(job, other)) continue;
    others_pace += 1 / std::max(job.standings.at(other).slowness, 1.0);
  }
  const auto left = static_cast<double>(job.tracker.LeftInWindow());
  return others_pace * BusyUntil(job, worker, free_slots) > left;
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
