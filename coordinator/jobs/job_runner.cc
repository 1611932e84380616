// The life of a job:
//
//   Plan -> Place -> Attach -> Train -> SUCCEEDED
//                      ^         |
//                      +---------+  a ps server left, or came back
//
// Plan and Place happen once; their results are in the record. Attach reaches every shard under a
// new generation, which is in the journal before anybody hears of it, and asks what each shard has
// applied; dispatch starts from what all of them have. It is the same for a job that starts, for
// one whose server was lost, and for one that a restarted coordinator takes up. From SetGeneration
// on a shard takes no push of an older generation, so what it answers stays true until workers get
// the new one; and a shard that loses steps afterwards belongs to a server that has joined again,
// which ends Train.
//
// Steps are handed out and counted on the threads that bring the messages (see Dispatcher); this
// thread wakes for what is rare: barriers, members, trouble, and Progress once a second.
#include "coordinator/jobs/job_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "coordinator/jobs/merge_progress.h"
#include "coordinator/jobs/retryable.h"
#include "coordinator/placement/placement.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kProgressPeriod = absl::Seconds(1);
constexpr absl::Duration kFirstRetryPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestRetryPause = absl::Seconds(2);
// A shard that is not found this often, by the server that should have it, is not there.
constexpr int kNotFoundLimit = 5;
// Faults of one worker in a row, without a step done between them, before people are told.
constexpr int kQuietFaults = 8;
// A job that does not get on for this long says for whom it waits, and says so again this often.
constexpr absl::Duration kStallAfter = absl::Seconds(10);
constexpr absl::Duration kStallNoticePeriod = absl::Minutes(1);

StepRules RulesOf(const JobSpec& spec, uint64_t total_steps) {
  return {.total_steps = total_steps,
          .replicas = Replicas(spec),
          .staleness_bound = StalenessBound(spec)};
}

// Marks the end of a thread whose job goes on later.
absl::Status Stopped() { return absl::UnavailableError("the coordinator stops"); }

}  // namespace

JobRunner::JobRunner(std::shared_ptr<Job> job, const RunnerEnvironment& environment)
    : job_(std::move(job)),
      environment_(environment),
      clock_(environment.clock),
      inbox_(environment.clock),
      thread_([this] { Run(); }) {}

JobRunner::~JobRunner() {
  Stop();
  thread_.join();
}

void JobRunner::Cancel() { Interrupt(absl::CancelledError("cancelled by a client")); }

void JobRunner::Stop() {
  {
    MutexLock lock(&shards_mutex_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  Interrupt(Stopped());
}

void JobRunner::Interrupt(const absl::Status& status) {
  {
    // In one go, so that it does not cancel the calls that the end of the run makes.
    MutexLock lock(&shards_mutex_);
    inbox_.Interrupt(status);
    if (shards_ != nullptr && (stopping_ || !finishing_)) shards_->Cancel();
  }
  environment_.planner->Wake();
}

void JobRunner::OnStepResult(const WorkerMember& worker, const StepResult& result) {
  if (!std::isfinite(result.loss_sum())) {
    return inbox_.Interrupt(absl::InvalidArgumentError(
        absl::StrCat("step ", result.step(), ": the loss is ", result.loss_sum(), " (on ",
                     worker.registration.name(), "); a smaller learning rate may help")));
  }
  const auto done = environment_.dispatcher->Done(worker.id, result);
  if (!done) return;
  if (done->first) stats_.Add(result);
  if (done->progress.at_barrier) inbox_.Wake();
}

void JobRunner::OnLeaseReturned(const WorkerMember& worker, const LeaseReturned& returned) {
  const auto code = static_cast<absl::StatusCode>(returned.code());
  const std::string message =
      absl::StrCat(returned.message(), " (on ", worker.registration.name(), ")");
  if (!IsRetryableElsewhere(code)) return inbox_.Interrupt(absl::Status(code, message));
  const int faults =
      environment_.dispatcher->GiveBack(worker.id, returned, code != absl::StatusCode::kOk);
  if (faults > 0 && faults % kQuietFaults == 0) {
    inbox_.AddNotice(absl::StrCat(worker.registration.name(), " gives steps back undone, ", faults,
                                  " in a row; ", message));
  }
  inbox_.Wake();  // A pause may end sooner than the next tick.
}

void JobRunner::OnJobPrepared(const WorkerMember& worker, const JobPrepared& prepared) {
  if (environment_.dispatcher->SetPrepared(worker.id, prepared)) {
    inbox_.AddNotice(
        absl::StrCat(worker.registration.name(), " cannot run the job: ", prepared.message()));
  }
  inbox_.Wake();  // An evaluation may wait for it.
}

void JobRunner::Run() {
  const absl::Status status = RunToEnd();
  // An interrupted call fails with an error of its own.
  const absl::Status interrupt = inbox_.interrupt();
  if (interrupt == Stopped() || !Finish(interrupt.ok() ? status : interrupt)) return;
  finished_ = true;
  environment_.on_ended();
}

bool JobRunner::Finish(const absl::Status& status) {
  if (const auto progress = environment_.dispatcher->GetProgress(job_->id())) {
    job_->SetStep(progress->applied);
  }
  PublishProgress(/*at_once=*/true);
  TellNotices();
  environment_.dispatcher->Remove(job_->id());
  if (shards_ != nullptr) {
    ResumeCalls();
    evaluator_->Abandon();
    if (!status.ok() && job_->record().has_started()) Fence();
  }
  if (status.ok()) return End(SUCCEEDED, "");
  return End(absl::IsCancelled(status) ? CANCELLED : FAILED, std::string(status.message()));
}

// Calls that were cancelled to end the run may be made again, and are not cancelled any more,
// unless the coordinator stops.
void JobRunner::ResumeCalls() {
  MutexLock lock(&shards_mutex_);
  finishing_ = true;
  if (!stopping_) shards_->Resume();
}

// Pushes that are still under way must not change the variables of a job that has ended. A server
// that is away is told when somebody asks for the variables.
void JobRunner::Fence() {
  absl::Status status =
      job_->Update([&](JobRecord& record) { record.set_generation(generation_ + 1); });
  if (status.ok()) {
    shards_->Locate();
    status = shards_->Fence(++generation_);
  }
  // CANCELLED: the coordinator stops.
  LOG_IF(WARNING, !status.ok() && !absl::IsCancelled(status)) << job_->id() << ": " << status;
}

// What clients are told has happened must be in the journal. Returns false when the coordinator
// stops first: its next life finds the job as it was.
bool JobRunner::End(JobState state, const std::string& message) {
  for (;;) {
    const absl::Status status = job_->SetState(state, message);
    if (status.ok()) return true;
    job_->SetWaiting(
        absl::StrCat("the coordinator's journal (", std::string(status.message()), ")"));
    const absl::Time again = clock_->Now() + kLongestRetryPause;
    MutexLock lock(&shards_mutex_);
    while (!stopping_ && !clock_->WaitUntil(&stopped_, &shards_mutex_, again)) {
    }
    if (stopping_) return false;
  }
}

absl::Status JobRunner::RunToEnd() {
  MILLRACE_RETURN_IF_ERROR(Plan());
  for (bool attached = false; !attached;) {
    MILLRACE_RETURN_IF_ERROR(Place());
    MILLRACE_RETURN_IF_ERROR(OpenShards());
    MILLRACE_ASSIGN_OR_RETURN(attached, Attach());
  }
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(const TrainingEnd end, Train());
    if (end == TrainingEnd::kFinished) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(Attach().status());
  }
}

absl::Status JobRunner::OpenShards() {
  const JobRecord record = job_->record();
  generation_ = record.generation();
  evaluator_.reset();  // It uses the shards.
  {
    MutexLock lock(&shards_mutex_);
    shards_ = std::make_unique<ShardGroup>(record, environment_.registry);
  }
  evaluator_ =
      std::make_unique<Evaluator>(Evaluator::Options{.job_id = job_->id(),
                                                     .spec = job_->spec(),
                                                     .total_steps = record.total_steps(),
                                                     .timeout = environment_.member_timeout,
                                                     .clock = clock_},
                                  shards_.get(), environment_.dispatcher);
  return inbox_.interrupt();  // It may have come before there was a group.
}

// The job waits for `whom`, until ClearWaiting. A running job does not wait for ever.
absl::Status JobRunner::NoteWaiting(const std::string& whom) {
  if (std::exchange(stalled_, false)) job_->ClearWaiting();
  moved_at_ = clock_->Now();
  const absl::Duration waited = job_->SetWaiting(whom);
  if (job_->state() != RUNNING || waited < environment_.member_timeout) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("waited ", absl::FormatDuration(environment_.member_timeout), " for ", whom,
                   "; --member_timeout of the coordinator allows no more"));
}

// Until something changes, `pause` at most.
absl::Status JobRunner::Wait(const std::string& whom, absl::Duration pause) {
  MILLRACE_RETURN_IF_ERROR(NoteWaiting(whom));
  return inbox_.WaitUntil(clock_->Now() + pause);
}

absl::Status JobRunner::Plan() {
  while (!job_->record().has_plan()) {
    if (environment_.registry->Workers().empty()) {
      MILLRACE_RETURN_IF_ERROR(Wait("a worker (none is connected)", kProgressPeriod));
      continue;
    }
    const auto plan = environment_.planner->Plan(
        job_->spec(), environment_.plan_timeout, [this] { return !inbox_.interrupt().ok(); },
        &lost_planners_);
    MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
    if (absl::IsUnavailable(plan.status()) || absl::IsDeadlineExceeded(plan.status()) ||
        absl::IsResourceExhausted(plan.status())) {
      MILLRACE_RETURN_IF_ERROR(
          Wait(absl::StrCat("a worker that can compile the model and open the data (",
                            std::string(plan.status().message()), ")"),
               kProgressPeriod));
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(plan.status());
    absl::Status valid;
    MILLRACE_RETURN_IF_ERROR(
        job_->Update([&](JobRecord& record) { valid = SetPlan(*plan, record); }));
    MILLRACE_RETURN_IF_ERROR(valid);
  }
  return absl::OkStatus();
}

absl::Status JobRunner::Place() {
  const JobRecord record = job_->record();
  if (record.shards_size() > 0) return absl::OkStatus();
  const size_t needed = std::max(environment_.min_ps, 1);
  std::vector<PsMember> servers = environment_.registry->PsServers();
  for (; servers.size() < needed; servers = environment_.registry->PsServers()) {
    MILLRACE_RETURN_IF_ERROR(Wait(absl::StrCat(needed, " ps servers (", servers.size(),
                                               servers.size() == 1 ? " is" : " are", " connected)"),
                                  kProgressPeriod));
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t elements, CountElements(record.plan().variables()));
  const uint64_t wanted = job_->spec().placement().shards();
  const std::vector<ShardSlices> shards =
      DivideIntoShards(record.plan().variables(),
                       wanted > 0 ? wanted : std::min<uint64_t>(servers.size(), elements));
  std::vector<uint64_t> held;
  for (const PsMember& server : servers) {
    held.push_back(environment_.elements_on(server.registration.directory_id()));
  }
  const std::vector<size_t> assigned = AssignShards(shards, std::move(held));
  return job_->Update([&](JobRecord& changed) {
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      const RegisterPs& server = servers[assigned[shard]].registration;
      ShardPlacement& placement = *changed.add_shards();
      placement.set_directory_id(server.directory_id());
      placement.set_server(server.name());
      placement.set_address(server.address());
      placement.mutable_slices()->Assign(shards[shard].begin(), shards[shard].end());
    }
  });
}

absl::StatusOr<bool> JobRunner::Attach() {
  environment_.dispatcher->Pause(job_->id());
  if (const auto step = evaluator_->Abandon()) {
    job_->AppendNotice(absl::StrCat("the evaluation at step ", *step,
                                    " was given up: a ps server that had a part of it is gone"));
  }
  MILLRACE_RETURN_IF_ERROR(
      job_->Update([&](JobRecord& record) { record.set_generation(++generation_); }));
  MILLRACE_ASSIGN_OR_RETURN(const auto shards, Reach(generation_));
  if (!shards) return false;
  MILLRACE_RETURN_IF_ERROR(job_->Update([&](JobRecord& record) {
    const auto& placements = shards_->placements();
    record.mutable_shards()->Assign(placements.begin(), placements.end());
  }));
  job_->ClearWaiting();
  if (job_->state() == PENDING) MILLRACE_RETURN_IF_ERROR(job_->SetState(RUNNING, ""));
  MILLRACE_RETURN_IF_ERROR(StartDispatch(generation_, *shards));
  return true;
}

// Calls every shard until all have answered, with no server leaving between the first and the last.
// Nothing: a server lost its directory before there was anything in it, and the job is to be placed
// again.
absl::StatusOr<absl::optional<std::vector<ShardStatus>>> JobRunner::Reach(uint64_t generation) {
  const bool is_new = job_->state() == PENDING;
  absl::Duration pause = kFirstRetryPause;
  for (int not_found = 0;;) {
    const std::string missing = shards_->Locate();
    if (!missing.empty() && is_new && shards_->lost_directory()) {
      MILLRACE_RETURN_IF_ERROR(Displace());
      return absl::nullopt;
    }
    if (!missing.empty()) {
      MILLRACE_RETURN_IF_ERROR(Wait(missing, kProgressPeriod));
      continue;
    }
    auto shards = is_new ? shards_->Create(generation) : shards_->SetGeneration(generation);
    MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
    if (shards.ok() && !shards_->Moved()) return *std::move(shards);
    const absl::Status& status = shards.status();
    if (absl::IsNotFound(status) && ++not_found >= kNotFoundLimit) return status;
    if (!IsRetryable(status.code()) || absl::IsFailedPrecondition(status)) return status;
    if (status.ok()) continue;
    LOG(WARNING) << job_->id() << ": " << status;
    MILLRACE_RETURN_IF_ERROR(
        Wait(absl::StrCat(shards_->failed_server(), ", which does not answer,"), pause));
    pause = std::min(2 * pause, kLongestRetryPause);
  }
}

absl::Status JobRunner::Displace() {
  const absl::Status dropped = shards_->Drop();  // What other servers have made of the job already.
  LOG_IF(WARNING, !dropped.ok()) << job_->id() << ": " << dropped;
  return job_->Update([](JobRecord& record) { record.clear_shards(); });
}

absl::Status JobRunner::StartDispatch(uint64_t generation, const std::vector<ShardStatus>& shards) {
  const JobRecord record = job_->record();
  MILLRACE_ASSIGN_OR_RETURN(const MergedProgress merged,
                            MergeProgress(shards, Replicas(job_->spec())));
  // A state that some shard has left behind cannot be evaluated any more.
  barrier_ = evaluator_->BarrierFrom(std::max<uint64_t>(merged.frontier, 1));
  job_->SetStep(merged.done.size());
  watermark_ = merged.done.watermark();
  moved_at_ = clock_->Now();
  stats_.Restart(clock_->Now());
  progress_due_ = clock_->Now() + kProgressPeriod;
  SetRoute route;
  route.set_job_id(job_->id());
  *route.mutable_spec() = job_->spec();
  *route.mutable_routing() = shards_->RoutingAt(generation);
  *route.mutable_plan() = record.plan();
  environment_.dispatcher->Start(RulesOf(job_->spec(), record.total_steps()), route, merged.done,
                                 barrier_);
  return absl::OkStatus();
}

absl::StatusOr<JobRunner::TrainingEnd> JobRunner::Train() {
  for (;;) {
    if (shards_->Moved()) return TrainingEnd::kDetached;
    MILLRACE_RETURN_IF_ERROR(HandleEvaluations());
    TellNotices();
    const Dispatcher::TickResult tick = environment_.dispatcher->Tick(job_->id());
    if (!tick.trouble.empty()) TellTrouble(tick.trouble);
    const auto progress = environment_.dispatcher->GetProgress(job_->id()).value();
    job_->SetStep(progress.applied);
    MILLRACE_RETURN_IF_ERROR(CheckWorkers(progress));
    PublishProgress(/*at_once=*/false);
    if (progress.at_barrier && !evaluator_->under_way()) {
      const auto finished = AtBarrier(progress);
      MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
      if (IsRetryable(finished.status().code()) && !finished.ok()) {
        // A shard could not be called: reach them all again.
        LOG(WARNING) << job_->id() << ": " << finished.status();
        MILLRACE_RETURN_IF_ERROR(Wait(
            absl::StrCat(shards_->failed_server(), ", which does not answer,"), kFirstRetryPause));
        return TrainingEnd::kDetached;
      }
      MILLRACE_RETURN_IF_ERROR(finished.status());
      if (*finished) return TrainingEnd::kFinished;
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(
        inbox_.WaitUntil(std::min(tick.next, std::max(progress_due_, clock_->Now()))));
  }
}

// All steps before the barrier are done and none after it was handed out. Returns whether the job
// is finished; otherwise training goes on.
absl::StatusOr<bool> JobRunner::AtBarrier(const Dispatcher::Progress& progress) {
  const uint64_t total = job_->record().total_steps();
  if (evaluator_->IsDueAt(barrier_)) {
    MILLRACE_RETURN_IF_ERROR(evaluator_->Begin(barrier_, generation_));
  } else if (progress.watermark >= total) {
    PublishProgress(/*at_once=*/true);
    MILLRACE_RETURN_IF_ERROR(shards_->FlushCut());
    return true;
  }
  barrier_ = evaluator_->BarrierFrom(barrier_ + 1);
  environment_.dispatcher->SetBarrier(job_->id(), barrier_);
  return false;
}

absl::Status JobRunner::HandleEvaluations() {
  for (const EvaluationResult& result : inbox_.TakeEvaluations()) {
    MILLRACE_ASSIGN_OR_RETURN(const auto evaluated, evaluator_->OnResult(result));
    if (!evaluated) continue;
    job_->AddMetrics(evaluated->metrics());
    JobEvent event;
    *event.mutable_evaluated() = *evaluated;
    job_->events().Append(std::move(event));
  }
  return absl::OkStatus();
}

absl::Status JobRunner::CheckWorkers(const Dispatcher::Progress& progress) {
  const std::vector<WorkerMember> workers = environment_.registry->Workers();
  const std::string trouble = evaluator_->CheckWorker(workers);
  if (!trouble.empty()) job_->AppendNotice(trouble);
  if (workers.empty()) return NoteWaiting("a worker (none is connected)");
  const std::string refusals = environment_.dispatcher->WhyNobodyCan(job_->id());
  if (!refusals.empty()) {
    return NoteWaiting(absl::StrCat("a worker (no worker can run the job: ", refusals, ")"));
  }
  CheckStall(progress, workers);
  return absl::OkStatus();
}

// While somebody works on it a job waits for as long as that takes; but it says for whom.
void JobRunner::CheckStall(const Dispatcher::Progress& progress,
                           const std::vector<WorkerMember>& workers) {
  const absl::Time now = clock_->Now();
  if (progress.watermark != watermark_) moved_at_ = now;
  watermark_ = progress.watermark;
  absl::optional<Dispatcher::Stall> stall;
  if (now - moved_at_ >= kStallAfter) {
    stall = progress.at_barrier ? evaluator_->FindStall(workers)
                                : environment_.dispatcher->FindStall(job_->id());
  }
  stalled_ = stall.has_value();
  if (!stall) return job_->ClearWaiting();
  job_->SetStalled(stall->whom, stall->since == absl::InfinitePast() ? moved_at_ : stall->since);
  TellTrouble(job_->Status().message());
}

void JobRunner::TellTrouble(const std::string& trouble) {
  const absl::Time now = clock_->Now();
  if (now < trouble_due_) return;
  trouble_due_ = now + kStallNoticePeriod;
  job_->AppendNotice(trouble);
}

void JobRunner::TellNotices() {
  for (const std::string& notice : inbox_.TakeNotices()) job_->AppendNotice(notice);
}

void JobRunner::PublishProgress(bool at_once) {
  const absl::Time now = clock_->Now();
  if (!at_once && now < progress_due_) return;
  progress_due_ = now + kProgressPeriod;
  auto progress = stats_.Take(now);
  if (!progress) return;
  job_->AddMetrics(progress->metrics());
  const JobStatus status = job_->Status();
  progress->set_step(status.step());
  progress->set_total_steps(status.total_steps());
  progress->set_workers(environment_.registry->Workers().size());
  JobEvent event;
  *event.mutable_progress() = *std::move(progress);
  job_->events().Append(std::move(event));
}

}  // namespace millrace::coordinator
