#include "worker/training/trainer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/memory_trimmer.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/training/member_messages.h"
#include "worker/training/work_queue.h"

namespace millrace::worker {
namespace {

// Jobs that are planned but have not begun; a coordinator plans few at a time.
constexpr size_t kKeptPlans = 2;
// One that has not begun by then was cancelled, was not taken, or waits for something else for
// long: its model may take much of the memory.
constexpr absl::Duration kPlanLifetime = absl::Minutes(1);
// Jobs whose data is being opened, or is to be.
constexpr size_t kMostPlans = 16;

// How long a new session may take to route the jobs of the one before that go on.
constexpr absl::Duration kConfirmPatience = absl::Minutes(1);

// Jobs that end one after the other are trimmed for together.
constexpr absl::Duration kTrimPause = absl::Seconds(2);

// That a heartbeat tells of.
constexpr size_t kMostActivities = 64;

// Before a job for which there was no thread is tried again.
constexpr absl::Duration kThreadPause = absl::Seconds(1);

// How long Stop lets a push wait for ps servers.
constexpr absl::Duration kStopPatience = absl::Seconds(5);

absl::Status NoRoute() {
  return absl::FailedPreconditionError("this worker has no route for the job");
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, std::function<void(MemberMessage)> send)
    : options_(options),
      send_(std::move(send)),
      preparer_(options.open_dataset, options.make_model, kKeptPlans),
      background_(options.clock) {}

Trainer::~Trainer() { Stop(); }

void Trainer::Handle(const CoordinatorMessage& message) {
  switch (message.kind_case()) {
    case CoordinatorMessage::kPlanJob:
      return Plan(message.plan_job());
    case CoordinatorMessage::kSetRoute:
      return Route(message.set_route());
    case CoordinatorMessage::kLease:
      return TakeLease(message.lease());
    case CoordinatorMessage::kEvaluate:
      return TakeEvaluation(message.evaluate());
    case CoordinatorMessage::kForgetJob:
      return Forget(message.forget_job().job_id());
    case CoordinatorMessage::kWelcome:
    case CoordinatorMessage::kMayLeave:
    case CoordinatorMessage::KIND_NOT_SET:
      break;
  }
  LOG(WARNING) << options_.worker_name
               << " ignores a message of the coordinator that it does not know; is the coordinator "
                  "newer than this worker?";
}

void Trainer::Plan(const PlanJob& request) {
  // It may be asked again and again.
  if (const absl::Status known = JobPreparer::CheckKnown(request.spec()); !known.ok()) {
    return send_(PlannedMessage(request.request_id(), known));
  }
  const std::string key = JobPreparer::Key(request.spec());
  bool is_full = false;
  {
    MutexLock lock(&mutex_);
    is_full = planning_.size() >= kMostPlans && !planning_.contains(key);
    if (!is_full) {
      const auto [planning, is_first] = planning_.try_emplace(key);
      planning->second.push_back(request.request_id());
      if (!is_first) return;  // One answer is for all of them.
    }
  }
  if (is_full) {
    send_(PlannedMessage(request.request_id(),
                         absl::UnavailableError(absl::StrCat(
                             "it has not opened the data of ", kMostPlans,
                             " other jobs yet; if that lasts, see whether the file systems of ",
                             "their data answer"))));
    return;
  }
  background_.Add([this, key, spec = request.spec()] { PlanNow(key, spec); });
}

void Trainer::PlanNow(const std::string& key, const JobSpec& spec) {
  const absl::StatusOr<JobPlan> plan = preparer_.Plan(spec);
  if (plan.ok()) {
    background_.AddAt(options_.clock->Now() + kPlanLifetime, [this, spec] {
      preparer_.Forget(spec);
      TrimSoon();
    });
  } else {
    TrimSoon();
  }
  std::vector<uint64_t> requests;
  {
    MutexLock lock(&mutex_);
    requests = std::move(planning_[key]);
    planning_.erase(key);
  }
  for (const uint64_t request : requests) send_(PlannedMessage(request, plan));
}

void Trainer::Route(const SetRoute& route) {
  {
    MutexLock lock(&mutex_);
    unstarted_.erase(route.job_id());  // This route is newer.
  }
  std::shared_ptr<StepLoop> loop = Find(route.job_id());
  if (loop == nullptr) return StartJob(route);
  if (!loop->Continues(route)) {
    LOG(WARNING) << options_.worker_name << ": the id of job " << route.job_id()
                 << " stands for another job than before; has the coordinator lost its data?";
    loop.reset();  // Its end may take long: not here.
    Forget(route.job_id());
    return StartJob(route);
  }
  {
    MutexLock lock(&mutex_);
    const auto found = jobs_.find(route.job_id());
    if (found == jobs_.end()) return;  // Stopped meanwhile.
    found->second.confirmed = true;
  }
  loop->Reroute(route);
}

void Trainer::StartJob(const SetRoute& route) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = Start(route);
  }
  if (status.ok()) return;
  LOG(WARNING) << options_.worker_name << " cannot work on job " << route.job_id()
               << " and will try again: " << status;
  send_(PreparedMessage(route.job_id(), status, /*remark=*/""));
  // Only now: that it can must not be told before.
  MutexLock lock(&mutex_);
  unstarted_[route.job_id()] = route;
  StartUnstartedSoon();
}

void Trainer::StartUnstartedSoon() {
  if (unstarted_.empty() || std::exchange(start_planned_, true)) return;
  background_.AddAt(options_.clock->Now() + kThreadPause, [this] { StartUnstarted(); });
}

void Trainer::StartUnstarted() {
  MutexLock lock(&mutex_);
  start_planned_ = false;
  for (auto job = unstarted_.begin(); job != unstarted_.end();) {
    const auto here = job++;
    if (Start(here->second).ok()) unstarted_.erase(here);
  }
  StartUnstartedSoon();
}

absl::Status Trainer::Start(const SetRoute& route) {
  if (stopped_) return absl::OkStatus();
  StepLoopOptions options;
  options.worker_name = options_.worker_name;
  options.clock = options_.clock;
  options.step_timeout = options_.step_timeout;
  options.call_timeout = options_.call_timeout;
  options.make_client = options_.make_client;
  options.preparer = &preparer_;
  options.send = send_;
  options.start_thread = options_.start_thread;
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<StepLoop> loop, StepLoop::Start(options, route));
  jobs_[route.job_id()].loop = std::move(loop);
  return absl::OkStatus();
}

void Trainer::RetireUnconfirmed(int session) {
  std::vector<std::shared_ptr<StepLoop>> unconfirmed;
  {
    MutexLock lock(&mutex_);
    if (session != session_) return;
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      const auto here = job++;
      if (here->second.confirmed) continue;
      unconfirmed.push_back(std::move(here->second.loop));
      jobs_.erase(here);
    }
  }
  for (std::shared_ptr<StepLoop>& loop : unconfirmed) Retire(std::move(loop));
}

void Trainer::Retire(std::shared_ptr<StepLoop> loop) {
  loop->DropWork();
  loop->Stop();
  background_.Add([this, loop = std::move(loop)]() mutable {
    loop.reset();
    TrimSoon();
  });
}

void Trainer::TrimSoon() {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(trim_planned_, true)) return;
  }
  background_.AddAt(options_.clock->Now() + kTrimPause, [this] {
    {
      MutexLock lock(&mutex_);
      trim_planned_ = false;
    }
    MemoryTrimmer::TrimMalloc();
  });
}

void Trainer::TakeLease(const Lease& lease) {
  if (const std::shared_ptr<StepLoop> loop = Find(lease.job_id())) {
    loop->Add(lease);
    return;
  }
  const StepWork work = {lease.lease_id(), lease.generation(), lease.begin()};
  send_(ReturnedMessage(lease.job_id(), work, NoRoute()));
}

void Trainer::TakeEvaluation(const Evaluate& evaluate) {
  if (const std::shared_ptr<StepLoop> loop = Find(evaluate.job_id())) {
    loop->Add(evaluate);
    return;
  }
  send_(EvaluationMessage(evaluate.job_id(), evaluate.evaluation_id(), NoRoute()));
}

void Trainer::Forget(const std::string& job_id) {
  std::shared_ptr<StepLoop> loop;
  {
    MutexLock lock(&mutex_);
    unstarted_.erase(job_id);
    const auto found = jobs_.find(job_id);
    if (found == jobs_.end()) return;
    loop = std::move(found->second.loop);
    jobs_.erase(found);
  }
  Retire(std::move(loop));
}

std::shared_ptr<StepLoop> Trainer::Find(const std::string& job_id) {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? nullptr : found->second.loop;
}

std::vector<Activity> Trainer::Activities() {
  std::vector<Activity> all;
  MutexLock lock(&mutex_);
  for (const auto& [id, job] : jobs_) {
    for (Activity& activity : job.loop->Activities()) {
      if (all.size() < kMostActivities) all.push_back(std::move(activity));
    }
  }
  return all;
}

void Trainer::DropWork() {
  std::vector<std::shared_ptr<StepLoop>> loops;
  {
    MutexLock lock(&mutex_);
    // Another life of the coordinator counts its requests from 1 again.
    for (auto& [key, requests] : planning_) requests.clear();
    unstarted_.clear();  // Those that go on are routed again.
    for (auto& [id, job] : jobs_) {
      job.confirmed = false;
      loops.push_back(job.loop);
    }
    background_.AddAt(options_.clock->Now() + kConfirmPatience,
                      [this, session = ++session_] { RetireUnconfirmed(session); });
  }
  for (const std::shared_ptr<StepLoop>& loop : loops) loop->DropWork();
}

void Trainer::Stop() {
  preparer_.CallOffPlanning();
  Jobs jobs;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& [id, job] : jobs) job.loop->Stop();
  const absl::Time deadline = options_.clock->Now() + kStopPatience;
  for (const auto& [id, job] : jobs) job.loop->Join(deadline - options_.clock->Now());
}

}  // namespace millrace::worker
