#include "worker/training/step_loop.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/catch_bad_alloc.h"
#include "worker/start_job_thread.h"
#include "worker/training/member_messages.h"
#include "worker/training/plan_check.h"

namespace millrace::worker {

absl::StatusOr<std::shared_ptr<StepLoop>> StepLoop::Start(const StepLoopOptions& options,
                                                          const SetRoute& route) {
  auto loop = absl::WrapUnique(new StepLoop(options, route));
  MILLRACE_ASSIGN_OR_RETURN(loop->thread_, StartJobThread("the job", options.start_thread,
                                                          [loop = loop.get()] { loop->Run(); }));
  return loop;
}

StepLoop::StepLoop(const StepLoopOptions& options, const SetRoute& route)
    : options_(options),
      job_id_(route.job_id()),
      spec_(route.spec()),
      board_(route.job_id(), options.clock),
      route_(route) {
  readiness_.Ask();
}

StepLoop::~StepLoop() {
  Stop();
  Join(absl::ZeroDuration());
}

bool StepLoop::Continues(const SetRoute& route) const {
  MutexLock lock(&mutex_);
  return route.routing().generation() >= route_.routing().generation() &&
         google::protobuf::util::MessageDifferencer::Equals(route.spec(), spec_);
}

void StepLoop::Reroute(const SetRoute& route) {
  std::shared_ptr<ParameterClient> old;
  {
    MutexLock lock(&mutex_);
    const uint64_t generation = route.routing().generation();
    const bool newer = generation > route_.routing().generation();
    route_ = route;
    readiness_.Ask();
    changed_.SignalAll();
    if (newer) {
      queue_.KeepOnly(generation);
      old = std::move(client_);
    }
  }
  Retire(std::move(old));
}

void StepLoop::Add(const Lease& lease) {
  MutexLock lock(&mutex_);
  if (lease.generation() != route_.routing().generation()) return;
  queue_.Add(lease, options_.clock->Now());
  changed_.SignalAll();
  if (pull_.step().has_value() && LowerStepThan(*pull_.step())) pull_.CallOff();
}

void StepLoop::Add(const Evaluate& evaluate) {
  MutexLock lock(&mutex_);
  if (evaluate.generation() != route_.routing().generation()) return;
  queue_.Add(evaluate);
  changed_.SignalAll();
}

void StepLoop::DropWork() {
  MutexLock lock(&mutex_);
  queue_.Clear();
  readiness_.Hush();
  pull_.CallOff();
}

void StepLoop::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    pull_.CallOff();
  }
  opening_.request_stop();  // Only now: that it could not be prepared is nothing to tell then.
  ReturnIdleLeases();
}

void StepLoop::Join(absl::Duration patience) {
  if (!thread_.joinable()) return;
  std::shared_ptr<ParameterClient> client;
  {
    MutexLock lock(&mutex_);
    const absl::Time deadline = options_.clock->Now() + patience;
    while (!ended_ && !options_.clock->WaitUntil(&changed_, &mutex_, deadline)) {
    }
    if (!ended_) client = std::move(client_);
  }
  Retire(std::move(client));
  thread_.join();
}

void StepLoop::Retire(std::shared_ptr<ParameterClient> client) {
  if (client == nullptr) return;
  client->Cancel();
  // Not before: the thread would let go of it meanwhile, and leave the last reference here.
  MutexLock lock(&mutex_);
  retired_.push_back(std::move(client));
  changed_.SignalAll();
}

bool StepLoop::LowerStepThan(uint64_t step) const {
  // Asynchronous steps do not wait for each other.
  if (Replicas(spec_) == 0) return false;
  const std::vector<uint64_t> first = queue_.Upcoming(1);
  return !first.empty() && first[0] < step;
}

void StepLoop::Run() {
  while (const absl::optional<Task> task = WaitForTask()) {
    absl::visit([this](const auto& any) { Do(any); }, *task);
    if (!absl::holds_alternative<StepWork>(*task)) computed_at_ = options_.clock->Now();
  }
  if (finisher_ != nullptr) finisher_->Drain();
  ReturnAllLeases();
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

absl::optional<StepLoop::Task> StepLoop::WaitForTask() {
  ReturnExpiredLeases();
  MutexLock lock(&mutex_);
  pull_.Forget();
  for (bool idle = false; !stopping_; idle = true) {
    if (absl::optional<Task> task = NextTask()) return task;
    if (!idle) board_.Begin(Activity::IDLE);
    options_.clock->WaitUntil(&changed_, &mutex_, readiness_.WaitsUntil());
  }
  return absl::nullopt;
}

absl::optional<StepLoop::Task> StepLoop::NextTask() {
  if (!retired_.empty()) return Task(std::exchange(retired_, {}));
  if (readiness_.Due(options_.clock->Now())) {
    readiness_.Begin();
    return Task(route_);
  }
  const absl::optional<QueuedWork> work = queue_.Next();
  if (!work.has_value()) return absl::nullopt;
  if (const auto* step = absl::get_if<StepWork>(&*work)) queue_.Begin(*step);
  return absl::visit([](const auto& any) { return Task(any); }, *work);
}

void StepLoop::ReturnIdleLeases() {
  std::vector<StepWork> leases;
  {
    MutexLock lock(&mutex_);
    leases = queue_.IdleLeases();
    for (const StepWork& lease : leases) queue_.Remove(lease.lease_id);
  }
  Return(leases);
}

// Leases expire here only while the thread is at other work: otherwise they are begun at once.
void StepLoop::ReturnExpiredLeases() {
  std::vector<StepWork> leases;
  {
    MutexLock lock(&mutex_);
    leases = queue_.TakeExpired(options_.clock->Now());
  }
  Return(leases);
}

void StepLoop::ReturnAllLeases() {
  std::vector<StepWork> leases;
  {
    MutexLock lock(&mutex_);
    leases = queue_.Leases();
    queue_.Clear();
  }
  Return(leases);
}

void StepLoop::Return(const std::vector<StepWork>& leases) {
  for (const StepWork& lease : leases) {
    options_.send(ReturnedMessage(job_id_, lease, absl::OkStatus()));
  }
}

absl::Status StepLoop::Prepare(const JobPlan& plan) {
  if (finisher_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(finisher_,
                              PushFinisher::Start(kPushesUnderWay, options_.start_thread));
  }
  if (computation_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<PreparedJob> job,
                              options_.preparer->Take(spec_, opening_.get_token()));
    MILLRACE_ASSIGN_OR_RETURN(computation_,
                              JobComputation::Start(spec_, std::move(job), options_.start_thread));
  }
  const absl::Status same = CheckSamePlan(spec_, computation_->plan(), plan);
  // The files may be replaced before the next attempt.
  if (!same.ok()) computation_.reset();
  return same;
}

void StepLoop::Do(const SetRoute& route) {
  board_.Begin(Activity::PREPARING);
  const absl::Status status =
      CatchBadAlloc("the job's data and model", [&] { return Prepare(route.plan()); });
  {
    MutexLock lock(&mutex_);
    if (!readiness_.Conclude(status, options_.clock->Now()) || stopping_) return;
  }
  LOG_IF(WARNING, !status.ok()) << options_.worker_name << " cannot work on job " << job_id_
                                << " and will try again: " << status;
  const std::string remark =
      status.ok() ? MixedNumerics(spec_, computation_->plan(), route.plan()) : "";
  options_.send(PreparedMessage(job_id_, status, remark));
}

void StepLoop::ReopenChangedData() {
  if (computation_ == nullptr || !computation_->data_changed()) return;
  finisher_->Drain();  // Pushes that are under way use this computation's gradients.
  computation_.reset();
  MutexLock lock(&mutex_);
  readiness_.AskAgain();
}

}  // namespace millrace::worker
