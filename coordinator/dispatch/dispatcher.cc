#include "coordinator/dispatch/dispatcher.h"

#include <algorithm>
#include <utility>

#include "common/proto_duration.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

// After the nth fault in a row. The first costs nothing: mostly another worker does better.
absl::Duration PauseAfter(int faults) {
  if (faults <= 1) return absl::ZeroDuration();
  return std::min(kLongestPause, kFirstPause * (1 << std::min(faults - 2, 10)));
}

}  // namespace

Dispatcher::Dispatcher(Outbox* outbox, const Options& options)
    : outbox_(outbox), options_(options) {}

void Dispatcher::SetWorkers(const std::vector<WorkerCapacity>& workers) {
  MutexLock lock(&mutex_);
  std::map<uint64_t, uint32_t> now;
  for (const WorkerCapacity& worker : workers) now[worker.worker] = worker.slots;
  for (const auto& [worker, slots] : workers_) {
    if (now.contains(worker)) continue;
    for (auto& [id, job] : jobs_) job.tracker.GiveBackAll(worker);
  }
  std::swap(workers_, now);
  for (const auto& [worker, slots] : workers_) {
    if (now.contains(worker)) continue;
    for (const auto& [id, job] : jobs_) outbox_->Send(worker, job.route);
  }
  HandOut();
}

void Dispatcher::Start(const StepRules& rules, const SetRoute& route, const AppliedSet& done,
                       uint64_t barrier) {
  MutexLock lock(&mutex_);
  JobDispatch& job = jobs_.try_emplace(route.job_id(), rules).first->second;
  job.tracker.Reset(route.routing().generation(), done);
  job.tracker.SetBarrier(barrier);
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

void Dispatcher::SetBarrier(const std::string& job_id, uint64_t barrier) {
  MutexLock lock(&mutex_);
  jobs_.at(job_id).tracker.SetBarrier(barrier);
  HandOut();
}

absl::optional<Dispatcher::DoneResult> Dispatcher::Done(const StepResult& result) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(result.job_id());
  if (job == jobs_.end()) return absl::nullopt;
  StepTracker& tracker = job->second.tracker;
  DoneResult done;
  done.first = tracker.Done(result.lease_id(), result.step(),
                            options_.clock->Now() + options_.lease_duration);
  if (done.first) {
    job->second.faults = 0;
    job->second.not_before = absl::InfinitePast();
  }
  done.progress = ProgressOf(tracker);
  HandOut();
  return done;
}

int Dispatcher::GiveBack(const LeaseReturned& returned, bool fault) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(returned.job_id());
  if (job == jobs_.end() || !job->second.tracker.GiveBack(returned.lease_id())) return 0;
  JobDispatch& dispatch = job->second;
  if (fault) {
    ++dispatch.faults;
    dispatch.not_before = options_.clock->Now() + PauseAfter(dispatch.faults);
  }
  HandOut();
  return dispatch.faults;
}

absl::Time Dispatcher::Tick(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return absl::InfiniteFuture();
  const absl::Time now = options_.clock->Now();
  job->second.tracker.Expire(now);
  HandOut();
  const absl::Time expiry = job->second.tracker.NextExpiry();
  return job->second.not_before > now ? std::min(expiry, job->second.not_before) : expiry;
}

Dispatcher::Progress Dispatcher::GetProgress(const std::string& job_id) {
  MutexLock lock(&mutex_);
  return ProgressOf(jobs_.at(job_id).tracker);
}

absl::optional<uint64_t> Dispatcher::SendEvaluate(const Evaluate& evaluate) {
  MutexLock lock(&mutex_);
  if (workers_.empty()) return absl::nullopt;
  auto worker = workers_.upper_bound(evaluated_);
  if (worker == workers_.end()) worker = workers_.begin();
  evaluated_ = worker->first;
  CoordinatorMessage message;
  *message.mutable_evaluate() = evaluate;
  outbox_->Send(worker->first, message);
  return worker->first;
}

Dispatcher::Progress Dispatcher::ProgressOf(const StepTracker& tracker) {
  return {tracker.done().size(), tracker.done().watermark(), tracker.AtBarrier()};
}

void Dispatcher::SendToAll(const CoordinatorMessage& message) {
  for (const auto& [worker, slots] : workers_) outbox_->Send(worker, message);
}

uint32_t Dispatcher::FreeSlots(uint64_t worker, uint32_t slots) const {
  uint32_t used = 0;
  for (const auto& [id, job] : jobs_) used += job.tracker.LeasesOf(worker);
  return used >= slots ? 0 : slots - used;
}

absl::optional<uint64_t> Dispatcher::EmptiestWorker() const {
  absl::optional<uint64_t> emptiest;
  uint32_t most = 0;
  for (const auto& [worker, slots] : workers_) {
    const uint32_t free = FreeSlots(worker, slots);
    if (free <= most) continue;
    most = free;
    emptiest = worker;
  }
  return emptiest;
}

void Dispatcher::HandOut() {
  for (auto worker = EmptiestWorker(); worker && LeaseTo(*worker); worker = EmptiestWorker()) {
  }
}

bool Dispatcher::LeaseTo(uint64_t worker) {
  auto job = jobs_.upper_bound(served_);
  for (size_t i = 0; i < jobs_.size(); ++i, ++job) {
    if (job == jobs_.end()) job = jobs_.begin();
    if (!LeaseFrom(*job, worker)) continue;
    served_ = job->first;
    return true;
  }
  return false;
}

bool Dispatcher::LeaseFrom(Jobs::value_type& job, uint64_t worker) {
  auto& [id, dispatch] = job;
  const absl::Time now = options_.clock->Now();
  if (dispatch.paused || now < dispatch.not_before) return false;
  uint64_t slots = 0;
  for (const auto& [other, capacity] : workers_) slots += capacity;
  const auto taken = dispatch.tracker.Take(worker, dispatch.tracker.LeaseSize(slots),
                                           now + options_.lease_duration);
  if (!taken) return false;
  CoordinatorMessage message;
  Lease& lease = *message.mutable_lease();
  lease.set_job_id(id);
  lease.set_generation(dispatch.tracker.generation());
  lease.set_lease_id(taken->id);
  lease.set_begin(taken->begin);
  lease.set_end(taken->end);
  *lease.mutable_duration() = ToProto(options_.lease_duration);
  outbox_->Send(worker, message);
  return true;
}

}  // namespace millrace::coordinator
