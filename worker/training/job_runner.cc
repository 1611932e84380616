#include "worker/training/job_runner.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/catch_bad_alloc.h"
#include "worker/training/plan_check.h"

namespace millrace::worker {
namespace {

MemberMessage Returned(const std::string& job_id, const StepWork& work,
                       const absl::Status& status) {
  MemberMessage message;
  LeaseReturned* returned = message.mutable_lease_returned();
  returned->set_job_id(job_id);
  returned->set_lease_id(work.lease_id);
  returned->set_step(work.step);
  returned->set_code(static_cast<int>(status.code()));
  if (!status.ok()) {
    returned->set_message(absl::StrCat("step ", work.step, ": ", status.message()));
  }
  return message;
}

absl::Status NotWanted() { return absl::CancelledError("no longer wanted"); }

void CancelIfAny(const std::shared_ptr<ParameterClient>& client) {
  if (client != nullptr) client->Cancel();
}

}  // namespace

JobRunner::JobRunner(const JobRunnerOptions& options, const SetRoute& route)
    : options_(options), job_id_(route.job_id()), spec_(route.spec()), route_(route) {
  readiness_.Ask();
  thread_ = std::thread([this] { Run(); });
}

JobRunner::~JobRunner() {
  Stop();
  Join(absl::ZeroDuration());
}

bool JobRunner::Continues(const SetRoute& route) const {
  MutexLock lock(&mutex_);
  return route.routing().generation() >= route_.routing().generation() &&
         google::protobuf::util::MessageDifferencer::Equals(route.spec(), spec_);
}

void JobRunner::Reroute(const SetRoute& route) {
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

void JobRunner::Add(const Lease& lease) {
  std::shared_ptr<ParameterClient> called_off;
  {
    MutexLock lock(&mutex_);
    if (lease.generation() != route_.routing().generation()) return;
    queue_.Add(lease);
    changed_.SignalAll();
    if (pulled_step_.has_value() && LowerStepThan(*pulled_step_)) called_off = CallOffPull();
  }
  CancelIfAny(called_off);
}

void JobRunner::Add(const Evaluate& evaluate) {
  MutexLock lock(&mutex_);
  if (evaluate.generation() != route_.routing().generation()) return;
  queue_.Add(evaluate);
  changed_.SignalAll();
}

void JobRunner::DropWork() {
  std::shared_ptr<ParameterClient> called_off;
  {
    MutexLock lock(&mutex_);
    queue_.Clear();
    readiness_.Hush();
    called_off = CallOffPull();
  }
  CancelIfAny(called_off);
}

void JobRunner::Stop() {
  std::shared_ptr<ParameterClient> called_off;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    called_off = CallOffPull();
  }
  CancelIfAny(called_off);
  ReturnLeases();
}

void JobRunner::Join(absl::Duration patience) {
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

std::shared_ptr<ParameterClient> JobRunner::RetireClient() {
  if (client_ != nullptr) retired_.push_back(client_);
  return std::move(client_);
}

std::shared_ptr<ParameterClient> JobRunner::CallOffPull() {
  if (!pulling_) return nullptr;
  called_off_ = true;
  return RetireClient();
}

bool JobRunner::LowerStepThan(uint64_t step) const {
  // Asynchronous steps do not wait for each other.
  if (Replicas(spec_) == 0) return false;
  const std::vector<uint64_t> first = queue_.Upcoming(1);
  return !first.empty() && first[0] < step;
}

void JobRunner::Run() {
  while (const absl::optional<Task> task = WaitForTask()) {
    absl::visit([this](const auto& any) { Do(any); }, *task);
  }
  ReturnLeases();
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

absl::optional<JobRunner::Task> JobRunner::WaitForTask() {
  DestroyRetired();
  MutexLock lock(&mutex_);
  called_off_ = pulling_ = false;
  pulled_step_.reset();
  lease_under_way_.reset();
  while (!stopping_) {
    if (absl::optional<Task> task = NextTask()) return task;
    options_.clock->WaitUntil(&changed_, &mutex_, readiness_.WaitsUntil());
  }
  return absl::nullopt;
}

absl::optional<JobRunner::Task> JobRunner::NextTask() {
  if (readiness_.Due(options_.clock->Now())) {
    readiness_.Begin();
    return Task(route_);
  }
  const absl::optional<Work> work = queue_.Next();
  if (!work.has_value()) return absl::nullopt;
  if (const auto* step = absl::get_if<StepWork>(&*work)) lease_under_way_ = step->lease_id;
  return absl::visit([](const auto& any) { return Task(any); }, *work);
}

void JobRunner::DestroyRetired() {
  std::vector<std::shared_ptr<ParameterClient>> retired;  // Outlives the lock.
  MutexLock lock(&mutex_);
  retired.swap(retired_);
}

void JobRunner::ReturnLeases() {
  std::vector<StepWork> leases;
  {
    MutexLock lock(&mutex_);
    for (const StepWork& lease : queue_.Leases()) {
      if (lease.lease_id == lease_under_way_) continue;
      queue_.Remove(lease.lease_id);
      leases.push_back(lease);
    }
  }
  for (const StepWork& lease : leases) options_.send(Returned(job_id_, lease, absl::OkStatus()));
}

absl::Status JobRunner::Prepare(const JobPlan& plan) {
  if (computation_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<PreparedJob> job, options_.preparer->Take(spec_));
    computation_ = std::make_unique<JobComputation>(spec_, std::move(job));
  }
  const absl::Status same = CheckSamePlan(computation_->plan(), plan);
  // The files may be replaced before the next attempt.
  if (!same.ok()) computation_.reset();
  return same;
}

absl::Status JobRunner::CheckPrepared() const {
  if (computation_ != nullptr) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return absl::UnavailableError(
      absl::StrCat("this worker is not prepared for the job: ", readiness_.status().message()));
}

void JobRunner::Do(const SetRoute& route) {
  const absl::Status status =
      CatchBadAlloc("the job's data and model", [&] { return Prepare(route.plan()); });
  {
    MutexLock lock(&mutex_);
    if (!readiness_.Conclude(status, options_.clock->Now()) || stopping_) return;
  }
  LOG_IF(WARNING, !status.ok()) << options_.worker_name << " cannot work on job " << job_id_
                                << " and will try again: " << status;
  MemberMessage message;
  JobPrepared* prepared = message.mutable_job_prepared();
  prepared->set_job_id(job_id_);
  prepared->set_code(static_cast<int>(status.code()));
  prepared->set_message(std::string(status.message()));
  options_.send(std::move(message));
}

void JobRunner::Do(const StepWork& work) {
  absl::StatusOr<StepResult> result = CatchBadAlloc("a step", [&] { return Compute(work); });
  if (!Settle(work, result.ok())) return;
  if (!result.ok()) {
    LOG(WARNING) << options_.worker_name << " gives back a lease of job " << job_id_ << " at step "
                 << work.step << ": " << result.status();
    options_.send(Returned(job_id_, work, result.status()));
    return;
  }
  MemberMessage message;
  *message.mutable_step_result() = *std::move(result);
  message.mutable_step_result()->set_job_id(job_id_);
  message.mutable_step_result()->set_lease_id(work.lease_id);
  options_.send(std::move(message));
}

absl::StatusOr<StepResult> JobRunner::Compute(const StepWork& work) {
  MILLRACE_RETURN_IF_ERROR(CheckPrepared());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<ParameterClient> client,
                            ClientFor(work.generation));
  const Servers servers = ServersFor(work, client.get(), absl::StrCat("step ", work.step));
  MILLRACE_RETURN_IF_ERROR(PullFor(work, servers));
  return computation_->Train(work.step, servers);
}

absl::Status JobRunner::PullFor(const StepWork& work, const Servers& servers) {
  std::vector<uint64_t> upcoming;
  {
    MutexLock lock(&mutex_);
    upcoming = queue_.Upcoming(computation_->look_ahead());
  }
  computation_->Expect(upcoming);
  MILLRACE_RETURN_IF_ERROR(BeginPull(work));
  const absl::Status status = computation_->Pull(work.step, servers);
  EndPull();
  return status;
}

void JobRunner::Do(const Evaluate& work) {
  absl::StatusOr<EvaluationResult> result =
      CatchBadAlloc("an evaluation", [&] { return Compute(work); });
  if (!Settle(work, result.ok())) return;
  MemberMessage message;
  EvaluationResult* told = message.mutable_evaluation_result();
  if (result.ok()) {
    *told = *std::move(result);
  } else {
    LOG(WARNING) << options_.worker_name << " cannot evaluate job " << job_id_ << ": "
                 << result.status();
    told->set_code(static_cast<int>(result.status().code()));
    told->set_message(absl::StrCat("evaluation: ", result.status().message()));
  }
  told->set_job_id(job_id_);
  told->set_evaluation_id(work.evaluation_id());
  options_.send(std::move(message));
}

absl::StatusOr<EvaluationResult> JobRunner::Compute(const Evaluate& work) {
  MILLRACE_RETURN_IF_ERROR(CheckPrepared());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<ParameterClient> client,
                            ClientFor(work.generation()));
  MILLRACE_RETURN_IF_ERROR(BeginPull(work));
  auto result = computation_->Evaluate(
      work.cut_id(), ServersFor(work, client.get(), absl::StrCat("cut ", work.cut_id())));
  EndPull();
  return result;
}

absl::StatusOr<std::shared_ptr<ParameterClient>> JobRunner::ClientFor(uint64_t generation) {
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

absl::StatusOr<std::shared_ptr<ParameterClient>> JobRunner::MakeClient(
    const Routing& routing) const {
  ParameterClientOptions options;
  options.clock = options_.clock;
  return options_.make_client(job_id_, computation_->variable_sizes(), routing, options);
}

template <typename AnyWork>
Servers JobRunner::ServersFor(const AnyWork& work, ParameterClient* client, std::string what) {
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
    return stopping_ || called_off_ || !queue_.Contains(work);
  };
  return servers;
}

absl::Status JobRunner::BeginPull(const StepWork& work) {
  MutexLock lock(&mutex_);
  if (LowerStepThan(work.step)) called_off_ = true;
  if (stopping_ || called_off_ || !queue_.Contains(work)) return NotWanted();
  pulling_ = true;
  pulled_step_ = work.step;
  return absl::OkStatus();
}

absl::Status JobRunner::BeginPull(const Evaluate& work) {
  MutexLock lock(&mutex_);
  if (stopping_ || !queue_.Contains(work)) return NotWanted();
  pulling_ = true;
  return absl::OkStatus();
}

void JobRunner::EndPull() {
  MutexLock lock(&mutex_);
  pulling_ = false;
  pulled_step_.reset();
}

bool JobRunner::Settle(const StepWork& work, bool ok) {
  MutexLock lock(&mutex_);
  if (!queue_.Contains(work)) return false;
  if (ok) {
    queue_.Finish(work);
    return true;
  }
  if (stopping_ || called_off_) return false;
  queue_.Remove(work.lease_id);
  return true;
}

bool JobRunner::Settle(const Evaluate& work, bool ok) {
  MutexLock lock(&mutex_);
  if (!queue_.Contains(work)) return false;
  if (!ok && (stopping_ || called_off_)) return false;
  queue_.Finish(work);
  return true;
}

}  // namespace millrace::worker
