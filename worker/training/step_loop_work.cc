// How a StepLoop does its work: a step is pulled and computed on the loop's thread, pushed beside
// the next one, and told by the finisher's; an evaluation is one piece.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/catch_bad_alloc.h"
#include "worker/training/member_messages.h"
#include "worker/training/step_loop.h"

namespace millrace::worker {
namespace {

absl::Status NotWanted() { return absl::CancelledError("no longer wanted"); }

}  // namespace

absl::Status StepLoop::CheckPrepared() const {
  if (computation_ != nullptr) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return absl::UnavailableError(
      absl::StrCat("this worker is not prepared for the job: ", readiness_.status().message()));
}

void StepLoop::Do(const StepWork& work) {
  absl::StatusOr<PushedStep> pushed =
      CatchBadAlloc("a step", [&]() -> absl::StatusOr<PushedStep> { return Compute(work); });
  if (!pushed.ok() && PutBack(work)) return;
  board_.BeginNothing();
  if (finisher_ == nullptr) return Finish(work, std::move(pushed));  // No job, and no push before.
  finisher_->Add(
      [this, work, pushed = std::move(pushed)]() mutable { Finish(work, std::move(pushed)); });
  ReopenChangedData();
}

absl::StatusOr<StepLoop::PushedStep> StepLoop::Compute(const StepWork& work) {
  MILLRACE_RETURN_IF_ERROR(CheckPrepared());
  PushedStep pushed;
  MILLRACE_ASSIGN_OR_RETURN(pushed.client, ClientFor(work.generation));
  pushed.servers = ServersFor(work, pushed.client.get(), absl::StrCat("step ", work.step));
  const absl::Time begin = options_.clock->Now();
  MILLRACE_ASSIGN_OR_RETURN(const PullTimes pull, PullFor(work, pushed.servers));
  const absl::Time pulled_at = options_.clock->Now();
  MILLRACE_ASSIGN_OR_RETURN(pushed.step, TrainOn(work, pushed.servers));
  pushed.computed_at = options_.clock->Now();
  StepTimes& times = *pushed.step.result.mutable_times();
  times.set_wait(absl::ToDoubleSeconds(begin - std::exchange(computed_at_, pushed.computed_at)));
  times.set_read(times.read() + absl::ToDoubleSeconds(pull.read));
  times.set_pull(absl::ToDoubleSeconds(pulled_at - begin - pull.read));
  times.set_copy(absl::ToDoubleSeconds(pull.copied));
  return pushed;
}

absl::StatusOr<ComputedStep> StepLoop::TrainOn(const StepWork& work, const Servers& servers) {
  const absl::Time begin = options_.clock->Now();
  board_.Begin(Activity::READING, work.step);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Batch> batch, computation_->Read(work.step));
  const absl::Time read_at = options_.clock->Now();
  board_.Begin(Activity::COMPUTING, work.step);
  MILLRACE_ASSIGN_OR_RETURN(
      ComputedStep step,
      computation_->Train(work.step, std::move(batch), servers, [&] { return StepAfter(work); }));
  StepTimes& times = *step.result.mutable_times();
  times.set_read(absl::ToDoubleSeconds(read_at - begin));
  times.set_compute(absl::ToDoubleSeconds(options_.clock->Now() - read_at));
  times.set_forward(absl::ToDoubleSeconds(step.backward_began_at - read_at));
  return step;
}

absl::optional<uint64_t> StepLoop::StepAfter(const StepWork& work) const {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::nullopt;
  const absl::optional<QueuedWork> next = queue_.Next();
  if (!next.has_value()) return absl::nullopt;
  const auto* const step = absl::get_if<StepWork>(&*next);
  if (step == nullptr || step->generation != work.generation) return absl::nullopt;
  return step->step;
}

absl::StatusOr<StepLoop::PullTimes> StepLoop::PullFor(const StepWork& work,
                                                      const Servers& servers) {
  PullTimes times = {absl::ZeroDuration(), absl::ZeroDuration()};
  std::vector<uint64_t> upcoming;
  {
    MutexLock lock(&mutex_);
    upcoming = queue_.Upcoming(computation_->look_ahead() - 1);
  }
  upcoming.insert(upcoming.begin(), work.step);
  computation_->Expect(upcoming);
  if (computation_->pulls_rows()) {
    const absl::Time begin = options_.clock->Now();
    board_.Begin(Activity::READING, work.step);
    MILLRACE_RETURN_IF_ERROR(computation_->ReadFor(work.step));
    times.read = options_.clock->Now() - begin;
  }
  const std::unique_ptr<ParameterClient::StartedPull> pull =
      computation_->StartPull(work.step, servers);
  MILLRACE_RETURN_IF_ERROR(BeginPull(work, pull.get()));
  board_.Begin(Activity::PULLING, work.step, work.step / std::max(Replicas(spec_), 1u), pull.get());
  const auto end = absl::MakeCleanup([this] {
    board_.BeginNothing();
    EndPull();
  });
  if (pull == nullptr) return times;
  MILLRACE_RETURN_IF_ERROR(computation_->FinishPull(work.step, pull.get(), servers));
  times.copied = pull->CopyTime();
  return times;
}

bool StepLoop::PutBack(const StepWork& work) {
  MutexLock lock(&mutex_);
  if (stopping_ || pull_.called_off()) {
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
  if (LowerStepThan(work.step)) pull_.CallOffBefore();
  if (stopping_ || pull_.called_off() || !queue_.Contains(work)) return NotWanted();
  pull_.Begin(pull, work.step);
  return absl::OkStatus();
}

absl::Status StepLoop::BeginPull(const Evaluate& work, ParameterClient::StartedPull* pull) {
  MutexLock lock(&mutex_);
  if (stopping_ || !queue_.Contains(work)) return NotWanted();
  pull_.Begin(pull, /*step=*/absl::nullopt);
  return absl::OkStatus();
}

void StepLoop::EndPull() {
  MutexLock lock(&mutex_);
  pull_.End();
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
  if (!ok && (stopping_ || pull_.called_off())) return false;
  queue_.Finish(work);
  return true;
}

}  // namespace millrace::worker
