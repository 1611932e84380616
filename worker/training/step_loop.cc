#include "worker/training/step_loop.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/catch_bad_alloc.h"
#include "worker/training/member_messages.h"
#include "worker/training/plan_check.h"

namespace millrace::worker {
namespace {

absl::Status NotWanted() { return absl::CancelledError("no longer wanted"); }

void CancelIfAny(const std::shared_ptr<ParameterClient>& client) {
  if (client != nullptr) client->Cancel();
}

}  // namespace

StepLoop::StepLoop(const StepLoopOptions& options, const SetRoute& route)
    : options_(options),
      job_id_(route.job_id()),
      spec_(route.spec()),
      board_(route.job_id(), options.clock),
      route_(route) {
  readiness_.Ask();
  thread_ = std::thread([this] { Run(); });
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
      old = RetireClient();
    }
  }
  CancelIfAny(old);
}

void StepLoop::Add(const Lease& lease) {
  MutexLock lock(&mutex_);
  if (lease.generation() != route_.routing().generation()) return;
  queue_.Add(lease, options_.clock->Now());
  changed_.SignalAll();
  if (pulled_step_.has_value() && LowerStepThan(*pulled_step_)) CallOffPull();
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
  CallOffPull();
}

void StepLoop::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    CallOffPull();
  }
  ReturnIdleLeases();
}

void StepLoop::Join(absl::Duration patience) {
  std::shared_ptr<ParameterClient> client;
  {
    MutexLock lock(&mutex_);
    const absl::Time deadline = options_.clock->Now() + patience;
    while (!ended_ && !options_.clock->WaitUntil(&changed_, &mutex_, deadline)) {
    }
    if (!ended_) client = RetireClient();
  }
  CancelIfAny(client);
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<ParameterClient> StepLoop::RetireClient() {
  if (client_ != nullptr) retired_.push_back(client_);
  return std::move(client_);
}

void StepLoop::CallOffPull() {
  if (pull_ == nullptr) return;
  called_off_ = true;
  pull_->Cancel();
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
  finisher_.Drain();
  ReturnAllLeases();
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

absl::optional<StepLoop::Task> StepLoop::WaitForTask() {
  DestroyRetired();
  ReturnExpiredLeases();
  MutexLock lock(&mutex_);
  called_off_ = false;
  for (bool idle = false; !stopping_; idle = true) {
    if (absl::optional<Task> task = NextTask()) return task;
    if (!idle) board_.Begin(Activity::IDLE);
    options_.clock->WaitUntil(&changed_, &mutex_, readiness_.WaitsUntil());
  }
  return absl::nullopt;
}

absl::optional<StepLoop::Task> StepLoop::NextTask() {
  if (readiness_.Due(options_.clock->Now())) {
    readiness_.Begin();
    return Task(route_);
  }
  const absl::optional<QueuedWork> work = queue_.Next();
  if (!work.has_value()) return absl::nullopt;
  if (const auto* step = absl::get_if<StepWork>(&*work)) queue_.Begin(*step);
  return absl::visit([](const auto& any) { return Task(any); }, *work);
}

void StepLoop::DestroyRetired() {
  std::vector<std::shared_ptr<ParameterClient>> retired;  // Outlives the lock.
  MutexLock lock(&mutex_);
  retired.swap(retired_);
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
  if (computation_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<PreparedJob> job, options_.preparer->Take(spec_));
    computation_ = std::make_unique<JobComputation>(spec_, std::move(job));
  }
  const absl::Status same = CheckSamePlan(spec_, computation_->plan(), plan);
  // The files may be replaced before the next attempt.
  if (!same.ok()) computation_.reset();
  return same;
}

absl::Status StepLoop::CheckPrepared() const {
  if (computation_ != nullptr) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return absl::UnavailableError(
      absl::StrCat("this worker is not prepared for the job: ", readiness_.status().message()));
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

void StepLoop::Do(const StepWork& work) {
  absl::StatusOr<PushedStep> pushed =
      CatchBadAlloc("a step", [&]() -> absl::StatusOr<PushedStep> { return Compute(work); });
  if (!pushed.ok() && PutBack(work)) return;
  board_.BeginNothing();
  finisher_.Add(
      [this, work, pushed = std::move(pushed)]() mutable { Finish(work, std::move(pushed)); });
  ReopenChangedData();
}

void StepLoop::ReopenChangedData() {
  if (computation_ == nullptr || !computation_->data_changed()) return;
  finisher_.Drain();  // Pushes that are under way use this computation's gradients.
  computation_.reset();
  MutexLock lock(&mutex_);
  readiness_.AskAgain();
}

absl::StatusOr<StepLoop::PushedStep> StepLoop::Compute(const StepWork& work) {
  MILLRACE_RETURN_IF_ERROR(CheckPrepared());
  PushedStep pushed;
  MILLRACE_ASSIGN_OR_RETURN(pushed.client, ClientFor(work.generation));
  pushed.servers = ServersFor(work, pushed.client.get(), absl::StrCat("step ", work.step));
  const absl::Time begin = options_.clock->Now();
  MILLRACE_ASSIGN_OR_RETURN(const absl::Duration copied, PullFor(work, pushed.servers));
  const absl::Time pulled_at = options_.clock->Now();
  MILLRACE_ASSIGN_OR_RETURN(pushed.step, TrainOn(work, pushed.servers));
  pushed.computed_at = options_.clock->Now();
  StepTimes& times = *pushed.step.result.mutable_times();
  times.set_wait(absl::ToDoubleSeconds(begin - std::exchange(computed_at_, pushed.computed_at)));
  times.set_pull(absl::ToDoubleSeconds(pulled_at - begin));
  times.set_copy(absl::ToDoubleSeconds(copied));
  return pushed;
}

absl::StatusOr<ComputedStep> StepLoop::TrainOn(const StepWork& work, const Servers& servers) {
  const absl::Time begin = options_.clock->Now();
  board_.Begin(Activity::READING, work.step);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Batch> batch, computation_->Read(work.step));
  const absl::Time read_at = options_.clock->Now();
  board_.Begin(Activity::COMPUTING, work.step);
  MILLRACE_ASSIGN_OR_RETURN(ComputedStep step,
                            computation_->Train(work.step, std::move(batch), servers));
  StepTimes& times = *step.result.mutable_times();
  times.set_read(absl::ToDoubleSeconds(read_at - begin));
  times.set_compute(absl::ToDoubleSeconds(options_.clock->Now() - read_at));
  times.set_forward(absl::ToDoubleSeconds(step.first_gradient_at - read_at));
  return step;
}

absl::StatusOr<absl::Duration> StepLoop::PullFor(const StepWork& work, const Servers& servers) {
  std::vector<uint64_t> upcoming;
  {
    MutexLock lock(&mutex_);
    upcoming = queue_.Upcoming(computation_->look_ahead() - 1);
  }
  upcoming.insert(upcoming.begin(), work.step);
  computation_->Expect(upcoming);
  const std::unique_ptr<ParameterClient::StartedPull> pull =
      computation_->StartPull(work.step, servers);
  MILLRACE_RETURN_IF_ERROR(BeginPull(work, pull.get()));
  board_.Begin(Activity::PULLING, work.step, work.step / std::max(Replicas(spec_), 1u), pull.get());
  const auto end = absl::MakeCleanup([this] {
    board_.BeginNothing();
    EndPull();
  });
  if (pull == nullptr) return absl::ZeroDuration();
  MILLRACE_RETURN_IF_ERROR(computation_->FinishPull(work.step, pull.get(), servers));
  return pull->CopyTime();
}

bool StepLoop::PutBack(const StepWork& work) {
  MutexLock lock(&mutex_);
  if (stopping_ || called_off_) {
    queue_.BeginAgain(work);
    return true;
  }
  if (queue_.Contains(work)) queue_.BeginNoMore(work.lease_id);
  return false;
}

absl::Status StepLoop::AwaitPushOf(const StepWork& work, PushedStep& pushed) {
  board_.BeginPush(work.step, pushed.step.push.get());
  const auto end = absl::MakeCleanup([this] { board_.EndPush(); });
  MILLRACE_RETURN_IF_ERROR(AwaitPush(pushed.step.push.get(), pushed.servers));
  const absl::Duration took = options_.clock->Now() - pushed.computed_at;
  pushed.step.result.mutable_times()->set_push(absl::ToDoubleSeconds(took));
  return absl::OkStatus();
}

void StepLoop::Finish(const StepWork& work, absl::StatusOr<PushedStep> pushed) {
  absl::Status status = pushed.status();
  if (status.ok()) {
    status = CatchBadAlloc("a push", [&] { return AwaitPushOf(work, *pushed); });
  }
  if (!Settle(work, status.ok())) return;
  if (status.ok()) {
    options_.send(StepMessage(job_id_, work.lease_id, std::move(pushed->step.result)));
    return;
  }
  LOG(WARNING) << options_.worker_name << " gives back a lease of job " << job_id_ << " at step "
               << work.step << ": " << status;
  options_.send(ReturnedMessage(job_id_, work, status));
}

void StepLoop::Do(const Evaluate& work) {
  absl::StatusOr<EvaluationResult> result =
      CatchBadAlloc("an evaluation", [&] { return Compute(work); });
  if (!Settle(work, result.ok())) return;
  LOG_IF(WARNING, !result.ok()) << options_.worker_name << " cannot evaluate job " << job_id_
                                << ": " << result.status();
  options_.send(EvaluationMessage(job_id_, work.evaluation_id(), std::move(result)));
  ReopenChangedData();
}

absl::StatusOr<EvaluationResult> StepLoop::Compute(const Evaluate& work) {
  MILLRACE_RETURN_IF_ERROR(CheckPrepared());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<ParameterClient> client,
                            ClientFor(work.generation()));
  const Servers servers = ServersFor(work, client.get(), absl::StrCat("cut ", work.cut_id()));
  board_.Begin(Activity::EVALUATING);
  const std::unique_ptr<ParameterClient::StartedPull> pull =
      computation_->StartPull(work.cut_id(), servers);
  MILLRACE_RETURN_IF_ERROR(BeginPull(work, pull.get()));
  const auto end = absl::MakeCleanup([this] { EndPull(); });
  return computation_->Evaluate(pull.get(), servers);
}

absl::StatusOr<std::shared_ptr<ParameterClient>> StepLoop::ClientFor(uint64_t generation) {
  Routing routing;
  {
    MutexLock lock(&mutex_);
    if (route_.routing().generation() != generation) return NotWanted();
    if (client_ != nullptr) return client_;
    routing = route_.routing();
  }
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<ParameterClient> client, MakeClient(routing));
  MutexLock lock(&mutex_);
  if (route_.routing().generation() != generation) return NotWanted();
  client_ = client;
  return client;
}

absl::StatusOr<std::shared_ptr<ParameterClient>> StepLoop::MakeClient(
    const Routing& routing) const {
  ParameterClientOptions options;
  options.clock = options_.clock;
  options.call_timeout = options_.call_timeout;
  options.frozen = computation_->frozen();
  return options_.make_client(job_id_, computation_->variable_sizes(), routing, options);
}

template <typename AnyWork>
Servers StepLoop::ServersFor(const AnyWork& work, ParameterClient* client, std::string what) {
  Servers servers;
  servers.client = client;
  if constexpr (std::is_same_v<AnyWork, StepWork>) {
    servers.generation = work.generation;
  } else {
    servers.generation = work.generation();
  }
  servers.patience.clock = options_.clock;
  servers.patience.timeout = options_.step_timeout;
  servers.patience.waiter = absl::StrCat(options_.worker_name, ": job ", job_id_, ": ", what);
  servers.stop_early = [this, work] {
    MutexLock lock(&mutex_);
    return stopping_ || !queue_.Contains(work);
  };
  return servers;
}

absl::Status StepLoop::BeginPull(const StepWork& work, ParameterClient::StartedPull* pull) {
  MutexLock lock(&mutex_);
  if (LowerStepThan(work.step)) called_off_ = true;
  if (stopping_ || called_off_ || !queue_.Contains(work)) return NotWanted();
  pull_ = pull;
  pulled_step_ = work.step;
  return absl::OkStatus();
}

absl::Status StepLoop::BeginPull(const Evaluate& work, ParameterClient::StartedPull* pull) {
  MutexLock lock(&mutex_);
  if (stopping_ || !queue_.Contains(work)) return NotWanted();
  pull_ = pull;
  return absl::OkStatus();
}

void StepLoop::EndPull() {
  MutexLock lock(&mutex_);
  pull_ = nullptr;
  pulled_step_.reset();
}

bool StepLoop::Settle(const StepWork& work, bool ok) {
  MutexLock lock(&mutex_);
  if (ok) {
    queue_.Renew(options_.clock->Now());
    return queue_.Finish(work);
  }
  if (stopping_ || !queue_.Contains(work)) return false;
  queue_.Remove(work.lease_id);
  return true;
}

bool StepLoop::Settle(const Evaluate& work, bool ok) {
  MutexLock lock(&mutex_);
  if (!queue_.Contains(work)) return false;
  if (!ok && (stopping_ || called_off_)) return false;
  queue_.Finish(work);
  return true;
}

}  // namespace millrace::worker
