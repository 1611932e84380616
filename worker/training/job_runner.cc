#include "worker/training/job_runner.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

// Steps whose batches are made ready.
constexpr size_t kLookAhead = 4;

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
    : options_(options),
      job_id_(route.job_id()),
      spec_(route.spec()),
      route_(route),
      thread_([this] { Run(); }) {}

JobRunner::~JobRunner() {
  Stop();
  Join(absl::ZeroDuration());
}

void JobRunner::Reroute(const SetRoute& route) {
  std::shared_ptr<ParameterClient> old;
  {
    MutexLock lock(&mutex_);
    const uint64_t generation = route.routing().generation();
    if (generation <= route_.routing().generation()) return;
    route_ = route;
    queue_.KeepOnly(generation);
    old = RetireClient();
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
  // Before the first lease comes. Whoever needs the job tries again, and tells of the error.
  Prepare().IgnoreError();
  while (const absl::optional<Work> work = WaitForWork()) {
    absl::visit([this](const auto& any) { Do(any); }, *work);
  }
  ReturnLeases();
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

absl::optional<Work> JobRunner::WaitForWork() {
  std::vector<std::shared_ptr<ParameterClient>> retired;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  retired.swap(retired_);
  called_off_ = false;
  while (!stopping_ && queue_.empty()) changed_.Wait(&mutex_);
  if (stopping_) return absl::nullopt;
  return queue_.Next();
}

void JobRunner::ReturnLeases() {
  std::vector<StepWork> leases;
  {
    MutexLock lock(&mutex_);
    leases = queue_.Leases();
    queue_.Clear();
  }
  for (const StepWork& lease : leases) options_.send(Returned(job_id_, lease, absl::OkStatus()));
}

absl::Status JobRunner::Prepare() {
  if (computation_ != nullptr) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<PreparedJob> job, options_.preparer->Take(spec_));
  computation_ = std::make_unique<JobComputation>(spec_, std::move(job));
  return absl::OkStatus();
}

void JobRunner::Do(const StepWork& work) {
  absl::StatusOr<StepResult> result = Compute(work);
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
  MILLRACE_RETURN_IF_ERROR(Prepare());
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
    upcoming = queue_.Upcoming(kLookAhead);
  }
  computation_->Expect(upcoming);
  MILLRACE_RETURN_IF_ERROR(BeginPull(work));
  const absl::Status status = computation_->Pull(work.step, servers);
  EndPull();
  return status;
}

void JobRunner::Do(const Evaluate& work) {
  absl::StatusOr<EvaluationResult> result = Compute(work);
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
  MILLRACE_RETURN_IF_ERROR(Prepare());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<ParameterClient> client,
                            ClientFor(work.generation()));
  MILLRACE_RETURN_IF_ERROR(BeginPull(work));
  auto result = computation_->Evaluate(
      work.cut_id(), ServersFor(work, client.get(), absl::StrCat("cut ", work.cut_id())));
  EndPull();
  return result;
}

absl::StatusOr<std::shared_ptr<ParameterClient>> JobRunner::ClientFor(uint64_t generation) {
  SetRoute route;
  {
    MutexLock lock(&mutex_);
    if (route_.routing().generation() != generation) return NotWanted();
    if (client_ != nullptr) return client_;
    route = route_;
  }
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<ParameterClient> client, MakeClient(route));
  MutexLock lock(&mutex_);
  if (route_.routing().generation() != generation) return NotWanted();
  client_ = client;
  return client;
}

absl::StatusOr<std::shared_ptr<ParameterClient>> JobRunner::MakeClient(
    const SetRoute& route) const {
  MILLRACE_RETURN_IF_ERROR(computation_->CheckVariables(route.plan().variables()));
  ParameterClientOptions options;
  options.clock = options_.clock;
  return options_.make_client(job_id_, computation_->variable_sizes(), route.routing(), options);
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
