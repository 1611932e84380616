#include "coordinator/jobs/planner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/placement/placement.h"

namespace millrace::coordinator {
namespace {

// The worker's trouble rather than the job's: another one may do better.
bool IsWorkersFault(int32_t code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status SetPlan(const JobPlan& plan, JobRecord& record) {
  if (plan.train_examples() == 0) {
    return absl::InternalError("a worker planned the job without training examples");
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t elements, CountElements(plan.variables()));
  MILLRACE_RETURN_IF_ERROR(CheckShardCount(record.spec().placement().shards(), elements));
  *record.mutable_plan() = plan;
  record.set_total_steps(TotalSteps(record.spec(), plan.train_examples()));
  return absl::OkStatus();
}

absl::StatusOr<JobPlan> Planner::Plan(const JobSpec& spec, absl::Duration timeout,
                                      const std::function<bool()>& cancelled) {
  const absl::Time deadline = clock_->Now() + timeout;
  uint64_t worker = 0;
  for (;;) {
    uint64_t request_id = 0;
    const auto asked = Ask(spec, worker, &request_id);
    if (!asked) return absl::UnavailableError("no worker that could compile the model is there");
    worker = *asked;
    absl::StatusOr<PlanResult> result = Await(request_id, worker, deadline, cancelled);
    {
      MutexLock lock(&mutex_);
      requests_.erase(request_id);
      if (shut_down_) return absl::UnavailableError("the coordinator stops");
    }
    if (absl::IsAborted(result.status())) continue;  // That worker is gone.
    if (!result.ok()) return result.status();
    if (result->code() == 0) return std::move(*result->mutable_plan());
    if (!IsWorkersFault(result->code())) {
      return absl::Status(static_cast<absl::StatusCode>(result->code()), result->message());
    }
  }
}

// The worker that came next after `after`, so that each is asked once: ids grow.
absl::optional<uint64_t> Planner::Ask(const JobSpec& spec, uint64_t after, uint64_t* request_id) {
  absl::optional<uint64_t> next;
  for (const WorkerMember& worker : registry_->Workers()) {
    if (worker.id > after) {
      next = worker.id;
      break;
    }
  }
  if (!next) return absl::nullopt;
  {
    MutexLock lock(&mutex_);
    *request_id = ++last_request_;
    requests_[*request_id].worker = *next;
  }
  CoordinatorMessage message;
  message.mutable_plan_job()->set_request_id(*request_id);
  *message.mutable_plan_job()->mutable_spec() = spec;
  registry_->Send(*next, message);
  return next;
}

bool Planner::IsThere(uint64_t worker) const {
  const std::vector<WorkerMember> workers = registry_->Workers();
  return std::any_of(workers.begin(), workers.end(),
                     [&](const WorkerMember& other) { return other.id == worker; });
}

// ABORTED: the worker has left.
absl::StatusOr<PlanResult> Planner::Await(uint64_t request_id, uint64_t worker, absl::Time deadline,
                                          const std::function<bool()>& cancelled) {
  for (uint64_t seen = 0;;) {
    if (cancelled()) return absl::CancelledError("cancelled while a worker compiled the model");
    if (!IsThere(worker)) return absl::AbortedError("the worker has left");
    {
      MutexLock lock(&mutex_);
      const Request& request = requests_[request_id];
      while (!request.result && !shut_down_ && wakes_ == seen) {
        if (clock_->WaitUntil(&changed_, &mutex_, deadline)) {
          return absl::DeadlineExceededError(
              "the worker did not compile the model and open the data in time; see its log");
        }
      }
      if (request.result) return *request.result;
      if (shut_down_) return absl::UnavailableError("the coordinator stops");
      seen = wakes_;
    }
  }
}

void Planner::OnPlanResult(const WorkerMember& worker, const PlanResult& result) {
  MutexLock lock(&mutex_);
  const auto request = requests_.find(result.request_id());
  if (request == requests_.end() || request->second.worker != worker.id) return;
  request->second.result = result;
  changed_.SignalAll();
}

void Planner::Wake() {
  MutexLock lock(&mutex_);
  ++wakes_;
  changed_.SignalAll();
}

void Planner::Shutdown() {
  MutexLock lock(&mutex_);
  shut_down_ = true;
  changed_.SignalAll();
}

}  // namespace millrace::coordinator
