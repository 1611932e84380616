// The life of a job:
//
//   Preparer -> Attacher -> Trainer -> SUCCEEDED
//                  ^           |
//                  +-----------+  a ps server went or came back, or a shard is not what it was
//
// Preparing happens once; its results are in the record. Attaching reaches every shard under a new
// generation and finds a state that all of them can go on from. It is the same for a job that
// starts, for one whose server was lost, and for one that a restarted coordinator takes up. What
// people are told on the way is the Reporter's.
#include "coordinator/run/job_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/grpc_status.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/retry.h"
#include "common/status_macros.h"
#include "coordinator/job/evaluation_verdict.h"
#include "coordinator/job/job_checkpoints.h"
#include "coordinator/run/job_beginning.h"
#include "coordinator/run/result_check.h"
#include "coordinator/run/trainer.h"
#include "coordinator/shards/attach_decision.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// Shards that were attached for less than this are attached again after a pause, which grows.
constexpr absl::Duration kSteady = absl::Seconds(5);
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
// Faults of one worker in a row, without a step done between them, before people are told.
constexpr int kQuietFaults = 8;

// Marks the end of a thread whose job goes on later.
absl::Status Stopped() { return absl::UnavailableError("the coordinator stops"); }

}  // namespace

JobRunner::JobRunner(std::shared_ptr<Job> job, const RunnerEnvironment& environment,
                     std::shared_ptr<CheckpointHold> hold)
    : job_(std::move(job)),
      environment_(environment),
      hold_(std::move(hold)),
      clock_(environment.clock),
      inbox_(environment.clock),
      reporter_(job_.get(), &environment_, &inbox_),
      preparer_(job_.get(), &environment_, &inbox_, &reporter_),
      attacher_(job_.get(), &environment_, &inbox_, &reporter_) {}

JobRunner::~JobRunner() {
  Stop();
  if (thread_.joinable()) thread_.join();
  checkpoint_requests_.Close(Stopped());  // Where it has not begun.
}

absl::Status JobRunner::Start() {
  MILLRACE_ASSIGN_OR_RETURN(thread_, environment_.start_thread([this] { Run(); }));
  return absl::OkStatus();
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
  if (IsExcluded(worker)) return;
  if (!std::isfinite(result.loss_sum())) {
    // Another one may have the step by now, and comes to the same.
    if (!environment_.dispatcher->HasStep(worker.id, result)) return;
    return inbox_.Interrupt(absl::InvalidArgumentError(
        absl::StrCat("step ", result.step(), ": the loss is ", result.loss_sum(), " (on ",
                     worker.registration.name(), "); a smaller learning rate may help")));
  }
  const auto done = environment_.dispatcher->Done(worker.id, result);
  if (!done) return;
  if (done->first) {
    const uint64_t examples =
        ExamplesOfStep(result.step(), job_->spec().batch_size(), train_examples_);
    if (examples == 0 || result.examples() == examples) {
      reporter_.Count(result);
    } else {
      Blame(worker, absl::StrCat(result.examples(), " examples for step ", result.step(),
                                 ", which has ", examples));
    }
    audit_.Add(done->generation, result.step(), worker.registration.name());
  }
  if (done->progress.at_barrier) inbox_.Wake();
  inbox_.Tell(done->progress.watermark);
}

// What it reported cannot be so; it counts in no metric.
void JobRunner::Blame(const WorkerMember& worker, const std::string& what) {
  const std::string& name = worker.registration.name();
  const bool excluded = audit_.AddOffence(name, what);
  inbox_.AddNotice(absl::StrCat(name, " reported ", what,
                                excluded ? "; it gets no more steps of this job" : ""));
  if (!excluded) return;
  environment_.dispatcher->SetPrepared(worker.id,
                                       Trainer::Refusal(job_->id(), audit_.WhyExcluded(name)));
}

void JobRunner::OnLeaseReturned(const WorkerMember& worker, const LeaseReturned& returned) {
  if (IsExcluded(worker)) return;
  if (!environment_.dispatcher->HasLease(worker.id, job_->id(), returned.lease_id())) return;
  const absl::StatusCode code = ToStatusCode(returned.code());
  const std::string message = absl::StrCat(
      returned.message().empty() ? "it does not say why" : Printable(returned.message()), " (on ",
      worker.registration.name(), ")");
  // What a ps server has lost may be made again, or ends the job, when the coordinator finds it so.
  const bool is_final = Classify(code) == Failure::kFinal && code != absl::StatusCode::kDataLoss;
  if (is_final) return inbox_.Interrupt(absl::Status(code, message));
  const int faults = environment_.dispatcher->GiveBack(worker.id, returned);
  if (faults > 0 && faults % kQuietFaults == 0) {
    inbox_.AddNotice(absl::StrCat(worker.registration.name(), " gives steps back undone, ", faults,
                                  " in a row; ", message));
  }
  inbox_.Wake();  // A pause may end sooner than the next tick.
}

void JobRunner::OnJobPrepared(const WorkerMember& worker, const JobPrepared& answer) {
  JobPrepared prepared = answer;
  if (IsExcluded(worker)) {
    prepared = Trainer::Refusal(job_->id(), audit_.WhyExcluded(worker.registration.name()));
  }
  prepared.set_message(Printable(prepared.message()));
  if (environment_.dispatcher->SetPrepared(worker.id, prepared)) {
    inbox_.AddNotice(
        absl::StrCat(worker.registration.name(),
                     prepared.code() == 0 ? " " : " cannot run the job: ", prepared.message()));
  }
  inbox_.Wake();  // An evaluation may wait for it.
}

void JobRunner::OnEvaluationResult(const WorkerMember& worker, const EvaluationResult& result) {
  environment_.dispatcher->SetAnswersEvaluations(worker.id, true);
  const bool wanted =
      environment_.dispatcher->HasEvaluation(worker.id, job_->id(), result.evaluation_id());
  if (!wanted || IsExcluded(worker)) return;
  EvaluationReport report{worker.id, result, worker.registration.name()};
  const uint64_t examples = evaluate_examples_;
  if (result.code() == 0 && examples != 0 && result.examples() != examples) {
    const std::string what = absl::StrCat("an evaluation of ", result.examples(),
                                          " examples, where data.evaluate has ", examples);
    Blame(worker, what);
    report.result.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    report.result.set_message(what);
  }
  inbox_.SetEvaluation(std::move(report));
}

void JobRunner::Run() {
  job_->ClearWaiting();  // For this thread.
  HoldDirectory();
  const absl::Status status = RunToEnd();
  // An interrupted call fails with an error of its own.
  const absl::Status interrupt = inbox_.interrupt();
  CloseCheckpoints(interrupt.ok() ? status : interrupt);
  if (interrupt == Stopped() || !Finish(interrupt.ok() ? status : interrupt)) return;
  finished_ = true;
  environment_.on_ended();
}

// Where another job has it, or it does not answer, the job's checkpoints say so, and take it when
// they can.
void JobRunner::HoldDirectory() {
  if (hold_ == nullptr) return;
  const JobRecord record = job_->record();
  TakeHold(hold_, HolderName(record), MayMakeDirectory(record),
           [this] { return !inbox_.interrupt().ok(); });
}

bool JobRunner::Finish(const absl::Status& status) {
  if (const auto progress = environment_.dispatcher->GetProgress(job_->id())) {
    job_->SetStep(progress->applied);
  }
  reporter_.TellRest();
  environment_.dispatcher->Remove(job_->id());
  if (shards_ != nullptr) {
    ResumeCalls();
    evaluator_->Abandon();
    if (!status.ok() && job_->record().has_started()) Fence();
  }
  if (status.ok()) {
    std::vector<std::string> warnings;
    if (checkpointer_ != nullptr && !checkpointer_->trouble().empty()) {
      warnings.push_back(absl::StrCat("checkpoints: ", checkpointer_->trouble()));
    }
    // Nobody must take it for one whose end is in its directory.
    if (checkpointer_ != nullptr && checkpointer_->has_lost_directory()) {
      return End(FAILED,
                 absl::StrCat("all steps are done, but ", checkpointer_->trouble(),
                              ". `millrace export` has the variables while its servers run"),
                 std::move(warnings));
    }
    return End(SUCCEEDED, WhyStoppedEarly(job_->record()), std::move(warnings));
  }
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
  const uint64_t generation = attacher_.generation() + 1;
  if (generation >= kGenerationLimit) return;
  const auto set_generation = [&](JobRecord& record) { record.set_generation(generation); };
  if (!WriteAtTheEnd([&] { return job_->Update(set_generation); })) return;
  shards_->Locate();
  const absl::Status status = shards_->Fence(generation);
  // CANCELLED: the coordinator stops.
  LOG_IF(WARNING, !status.ok() && !absl::IsCancelled(status)) << job_->id() << ": " << status;
}

// Who hears of the end may take the directory at once. Nobody may before it is in the journal: the
// coordinator's next life would go on with the job.
bool JobRunner::End(JobState state, const std::string& message, std::vector<std::string> warnings) {
  const auto let_go = [this] {
    if (hold_ != nullptr) ReleaseHolds({hold_});
  };
  return WriteAtTheEnd([&] { return job_->SetState(state, message, warnings, let_go); });
}

void JobRunner::RequestCheckpoint(CheckpointRequest request) {
  checkpoint_requests_.Add(std::move(request));
  inbox_.Wake();
}

void JobRunner::OpenCheckpoints() {
  if (job_->spec().checkpoints().directory().empty()) return;
  Checkpointer::Options options =
      CheckpointsOf(job_->record(), [job = job_] { return job->record(); });
  options.wake = [this] { inbox_.Wake(); };
  options.file_system = environment_.file_system;
  options.hold = hold_;
  options.clock = clock_;
  checkpointer_ = std::make_unique<Checkpointer>(std::move(options), &checkpoint_requests_);
}

void JobRunner::DetachCheckpoints(const std::string& cause) {
  trains_ = false;
  if (checkpointer_ == nullptr) return;
  checkpointer_->Detach(cause);
  reporter_.TellCheckpoints(*checkpointer_);
}

void JobRunner::CloseCheckpoints(const absl::Status& status) {
  DetachCheckpoints(status.ok() ? "the job has ended" : std::string(status.message()));
  absl::Status none =
      absl::FailedPreconditionError("the job has ended without a checkpoint of its end");
  if (!status.ok()) {
    none = absl::Status(status == Stopped() ? absl::StatusCode::kUnavailable : none.code(),
                        absl::StrCat("no checkpoint was written: ", status.message()));
  }
  if (checkpointer_ != nullptr) {
    checkpointer_->Close(none);
    reporter_.TellCheckpoints(*checkpointer_);
  }
  checkpoint_requests_.Close(none);
}

// What clients are told has happened must be in the journal. Returns false when the coordinator
// stops first: its next life finds the job as it was.
bool JobRunner::WriteAtTheEnd(const std::function<absl::Status()>& write) {
  for (;;) {
    const absl::Status status = write();
    if (status.ok()) return true;
    job_->Spend(TimeUse::kWaiting, WhomInShort(kTheJournal));
    job_->SetWaiting(kTheJournal, absl::nullopt, WhyNotJournaled(status));
    const absl::Time again = clock_->Now() + kJournalRetryPause;
    MutexLock lock(&shards_mutex_);
    while (!stopping_ && !clock_->WaitUntil(&stopped_, &shards_mutex_, again)) {
    }
    if (stopping_) return false;
  }
}

absl::Status JobRunner::RunToEnd() {
  MILLRACE_RETURN_IF_ERROR(preparer_.Plan());
  MILLRACE_RETURN_IF_ERROR(preparer_.WarmStart());
  return TrainToEnd();
}

// Where a server lost its directory before there was anything in it, the job gets other places.
absl::StatusOr<Attached> JobRunner::AttachSomewhere() {
  for (;;) {
    MILLRACE_RETURN_IF_ERROR(preparer_.Place(attacher_.avoided()));
    if (shards_ == nullptr) MILLRACE_RETURN_IF_ERROR(Open());
    MILLRACE_ASSIGN_OR_RETURN(auto attached, attacher_.Attach(*shards_));
    if (attached) return *std::move(attached);
    evaluator_.reset();  // It uses the shards.
    MutexLock lock(&shards_mutex_);
    shards_.reset();
  }
}

absl::Status JobRunner::Open() {
  const JobRecord record = job_->record();
  {
    MutexLock lock(&shards_mutex_);
    shards_ = std::make_unique<ShardGroup>(record, environment_.registry);
  }
  train_examples_ = record.plan().train_examples();
  if (record.spec().data().has_evaluate()) evaluate_examples_ = record.plan().evaluate_examples();
  evaluator_ = std::make_unique<Evaluator>(Evaluator::Options{.job_id = job_->id(),
                                                              .spec = job_->spec(),
                                                              .total_steps = EndStep(record),
                                                              .evaluated = record.evaluated(),
                                                              .clock = clock_},
                                           shards_.get(), environment_.dispatcher);
  return inbox_.interrupt();  // It may have come before there was a group.
}

// The job is RUNNING from now on, if it was not.
absl::Status JobRunner::BeginRunning() {
  while (job_->state() == PENDING) {
    const absl::Status status = job_->SetState(RUNNING, "");
    if (!status.ok()) MILLRACE_RETURN_IF_ERROR(reporter_.WaitForJournal(status));
    const std::string restored = status.ok() ? DescribeRestore(job_->record()) : "";
    if (!restored.empty()) job_->AppendNotice(restored);
  }
  return absl::OkStatus();
}

absl::Status JobRunner::TrainToEnd() {
  Trainer::Before before;
  if (job_->state() == RUNNING) {
    const JobRecord record = job_->record();
    before = {.cause = "the coordinator was started again",
              .since = clock_->Now(),
              .steps = record.step(),
              .is_least = true,
              .version = record.step() / std::max<uint64_t>(Replicas(job_->spec()), 1)};
  }
  absl::optional<Trainer> trainer;
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(const Attached attached, AttachSomewhere());
    if (!trainer) {
      // Only now it is sure which checkpoint the job goes on from.
      OpenCheckpoints();
      trainer.emplace(Trainer::Parts{job_.get(), &environment_, &inbox_, &reporter_, &audit_,
                                     &attacher_.relocator(), checkpointer_.get()});
    }
    MILLRACE_RETURN_IF_ERROR(BeginRunning());
    trains_ = true;  // Before its steps do anything: who sees what they have done may ask.
    trainer->Start(before, attached, *shards_, *evaluator_);
    const absl::Time attached_at = clock_->Now();
    MILLRACE_ASSIGN_OR_RETURN(Trainer::End end, trainer->Train(*shards_, *evaluator_));
    if (end.finished) return absl::OkStatus();
    before = std::move(end.before);
    if (end.unserved) {
      attacher_.NoteUnserved(shards_->placements()[end.unserved->shard].directory_id(),
                             end.unserved->since);
    }
    job_->SetRecovering(before.cause);
    DetachCheckpoints(before.cause);
    environment_.dispatcher->Pause(job_->id());
    if (const auto step = evaluator_->Abandon()) {
      job_->AppendNotice(
          absl::StrCat("the evaluation at step ", *step, " was given up: ", before.cause));
    }
    MILLRACE_RETURN_IF_ERROR(PauseBefore(before.cause, attached_at));
  }
}

// What goes wrong at once again does not keep the journal and the servers busy.
absl::Status JobRunner::PauseBefore(const std::string& cause, absl::Time attached_at) {
  if (clock_->Now() - attached_at >= kSteady) {
    pause_ = absl::ZeroDuration();
    return absl::OkStatus();
  }
  if (pause_ > absl::ZeroDuration()) {
    MILLRACE_RETURN_IF_ERROR(
        reporter_.Wait(absl::StrCat("the shards to become steady (", cause, ")"), pause_));
  }
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  return absl::OkStatus();
}

}  // namespace millrace::coordinator
