#include "coordinator/jobs/job_table.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/job_state.h"
#include "common/printable.h"
#include "common/proto_fields.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_files.h"
#include "coordinator/explain/explain.h"
#include "coordinator/jobs/job_beginning.h"
#include "coordinator/jobs/job_facts.h"
#include "coordinator/jobs/plan_check.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr size_t kMaxRequestIdLength = 200;

// Calls `then` once it was told of as many ends as there are to come. Thread-safe.
class Countdown {
 public:
  Countdown(size_t ends, std::function<void()> then) : left_(ends), then_(std::move(then)) {}

  void OneHasEnded() {
    if (--left_ == 0) then_();
  }

 private:
  std::atomic<size_t> left_;
  const std::function<void()> then_;
};

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() <= kMaxRequestIdLength) return absl::OkStatus();
  return FieldError("request_id", absl::StrCat(request_id.size(), " bytes"),
                    absl::StrCat("at most ", kMaxRequestIdLength));
}

}  // namespace

JobTable::JobTable(const RunnerEnvironment& environment, const RetentionLimits& limits,
                   Journal* journal, const QueueLimits& queue_limits)
    : environment_(environment),
      journal_(journal),
      queue_(queue_limits),
      retention_({.limits = limits,
                  .registry = environment.registry,
                  .ended_jobs = [this] { return EndedJobs(); },
                  .forget = [this](const Job& job) { return Forget(job); },
                  .find_job = [this](const std::string& id) { return Find(id).value_or(nullptr); },
                  .on_freed =
                      [this] {
                        for (const auto& runner : Runners()) runner->OnMemoryFreed();
                      },
                  .clock = environment.clock}) {
  environment_.elements_on = [this](const std::string& id) { return ElementsOn(id); };
  environment_.drop_strays = [this](const auto& strays) { retention_.DropStrays(strays); };
  environment_.on_ended = [this] {
    RunNext();
    retention_.Wake();
  };
}

JobTable::~JobTable() { Stop(); }

absl::Status JobTable::Load() {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<Journal::Entry> entries, journal_->ReadJobs());
  for (Journal::Entry& entry : entries) {
    // What was told last, where the record is older.
    if (entry.record.state() == RUNNING && entry.step > 0) entry.record.set_step(entry.step);
    auto job =
        std::make_shared<Job>(std::move(entry.record), entry.events, journal_, environment_.clock);
    MILLRACE_RETURN_IF_ERROR(Add(std::move(job)));
  }
  return absl::OkStatus();
}

void JobTable::Resume() {
  std::vector<std::shared_ptr<Job>> unfinished = Jobs();
  unfinished.erase(std::remove_if(unfinished.begin(), unfinished.end(),
                                  [](const auto& job) { return HasEnded(job->state()); }),
                   unfinished.end());
  for (const auto& job : unfinished) job->AppendNotice("the coordinator was started again");
  {
    MutexLock lock(&mutex_);
    for (const auto& job : unfinished) {
      queue_.Add(job->number(), job->state() == RUNNING, job->spec().ByteSizeLong());
    }
    RunWhoseTurnItIs();
  }
  retention_.Wake();
}

absl::Status JobTable::Add(std::shared_ptr<Job> job) {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the coordinator stops");
  AddLocked(std::move(job));
  return absl::OkStatus();
}

// Jobs that wait for their turns may be thousands, and hold nothing: each would keep a file open.
absl::Status JobTable::AddNew(std::shared_ptr<Job> job, std::shared_ptr<CheckpointHold>& hold) {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the coordinator stops");
  Entry& entry = AddLocked(job);
  entry.hold = hold;
  queue_.Add(job->number(), /*has_started=*/false, job->spec().ByteSizeLong());
  RunWhoseTurnItIs();
  if (entry.runner == nullptr) {
    entry.hold.reset();
  } else {
    hold.reset();
  }
  return absl::OkStatus();
}

JobTable::Entry& JobTable::AddLocked(std::shared_ptr<Job> job) {
  const uint64_t number = job->number();
  by_id_[job->id()] = number;
  if (!job->request_id().empty()) by_request_[job->request_id()] = job->id();
  last_number_ = std::max(last_number_, number);
  Entry& entry = jobs_[number];
  entry.job = std::move(job);
  return entry;
}

void JobTable::RunNext() {
  MutexLock lock(&mutex_);
  queue_.EndIf([this](uint64_t number) {
    mutex_.AssertHeld();
    const auto entry = jobs_.find(number);
    return entry == jobs_.end() || entry->second.runner == nullptr ||
           entry->second.runner->finished();
  });
  RunWhoseTurnItIs();
}

void JobTable::RunWhoseTurnItIs() {
  if (stopping_) return;
  while (const auto number = queue_.TakeNext()) RunLocked(jobs_.at(*number));
  size_t before = 0;
  for (const uint64_t number : queue_.Waiting()) {
    jobs_.at(number).job->SetTurn(before++, queue_.limits().running);
  }
}

// A job has one runner: a second one would give its shards a generation that the first does not
// know.
void JobTable::RunLocked(Entry& entry) {
  entry.job->ClearTurn();
  if (entry.runner != nullptr) return;
  const std::string& directory = entry.job->spec().checkpoints().directory();
  if (entry.hold == nullptr && !directory.empty()) entry.hold = MakeHold(directory);
  entry.runner = std::make_shared<JobRunner>(entry.job, environment_, entry.hold);
}

absl::StatusOr<std::string> JobTable::Submit(const SubmitJobRequest& request,
                                             const std::function<bool()>& cancelled) {
  MILLRACE_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  MILLRACE_RETURN_IF_ERROR(CheckJobSpec(request.spec()));
  if (request.request_id().empty()) return Take(request, cancelled);
  MILLRACE_ASSIGN_OR_RETURN(std::string job_id, Claim(request));
  if (!job_id.empty()) return job_id;
  const absl::Cleanup release = [&] { Release(request.request_id()); };
  return Take(request, cancelled);
}

absl::StatusOr<std::string> JobTable::Claim(const SubmitJobRequest& request) {
  const std::string& request_id = request.request_id();
  const absl::Time deadline = Clock::Real()->Now() + environment_.plan_timeout;
  MutexLock lock(&mutex_);
  while (claimed_.contains(request_id)) {
    if (Clock::Real()->WaitUntil(&released_, &mutex_, deadline)) {
      return absl::DeadlineExceededError("an earlier request with this request_id is under way");
    }
  }
  const auto known = by_request_.find(request_id);
  if (known != by_request_.end()) {
    const Job& job = *jobs_.at(by_id_.at(known->second)).job;
    if (MessageDifferencer::Equals(job.spec(), request.spec())) return known->second;
    return absl::AlreadyExistsError(
        absl::StrCat("request_id: '", absl::CHexEscape(request_id), "' was given with job '",
                     known->second, "', of another spec; make up a new one for each submission"));
  }
  claimed_.insert(request_id);
  return "";
}

void JobTable::Release(const std::string& request_id) {
  MutexLock lock(&mutex_);
  claimed_.erase(request_id);
  released_.SignalAll();
}

absl::StatusOr<std::string> JobTable::Take(const SubmitJobRequest& request,
                                           const std::function<bool()>& cancelled) {
  const uint64_t bytes = request.spec().ByteSizeLong();
  {
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(queue_.Reserve(bytes));
  }
  absl::StatusOr<std::string> job_id = TakeReserved(request, cancelled);
  MutexLock lock(&mutex_);
  queue_.Release(bytes);
  return job_id;
}

absl::StatusOr<std::string> JobTable::TakeReserved(const SubmitJobRequest& request,
                                                   const std::function<bool()>& cancelled) {
  JobRecord record;
  record.set_request_id(request.request_id());
  *record.mutable_spec() = request.spec();
  record.set_state(PENDING);
  *record.mutable_submitted() = ToTimestamp(environment_.clock->Now());
  const std::string directory = NormalDirectory(record.spec().checkpoints().directory());
  MILLRACE_RETURN_IF_ERROR(ClaimDirectory(directory));
  const absl::Cleanup release = [&] { ReleaseDirectory(directory); };
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<CheckpointHold> hold,
                            HoldDirectory(record.spec(), cancelled));
  const absl::Cleanup let_go = [&] {
    if (hold != nullptr) ReleaseHolds({hold});
  };
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> notices,
                            ResolveRestore(environment_, cancelled, record));
  MILLRACE_RETURN_IF_ERROR(PlanInto(record, cancelled, notices));
  MILLRACE_ASSIGN_OR_RETURN(const std::string warm_start,
                            ResolveWarmStart(environment_, cancelled, record));
  if (!warm_start.empty()) notices.push_back(warm_start);
  if (cancelled()) return absl::CancelledError("the client has gone; nothing was taken");
  {
    MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the coordinator stops");
    record.set_number(++last_number_);
  }
  record.set_job_id(MakeJobId(record.spec().name(), record.number(), journal_->tag()));
  MILLRACE_RETURN_IF_ERROR(journal_->Write(record));
  const std::string job_id = record.job_id();
  LOG(INFO) << job_id << ": taken";
  auto job =
      std::make_shared<Job>(std::move(record), /*last_event=*/0, journal_, environment_.clock);
  job->AnnounceState();
  for (const std::string& notice : notices) job->AppendNotice(notice);
  // With its runner or its place in the queue, so that whoever finds it can cancel it.
  MILLRACE_RETURN_IF_ERROR(AddNew(job, hold));
  job->AnnounceTurn();
  return job_id;
}

// A directory belongs to one run: here none takes that of another one that has not ended. Jobs of
// other coordinators are held off by the directory's lock (CheckpointHold), and told apart by what
// is in it (CheckpointFiles). What has the lock here and is neither a job nor a submission is a
// call that nobody waits for any more, since the disk does not answer it.
absl::Status JobTable::ClaimDirectory(const std::string& directory) {
  if (directory.empty()) return absl::OkStatus();
  const auto refuse = [&](const std::string& whose) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoints.directory: '", directory, "' is that of ", whose,
                     ", which has not ended; name another directory, or cancel that job"));
  };
  MutexLock lock(&mutex_);
  for (const auto& [number, entry] : jobs_) {
    const Job& job = *entry.job;
    if (HasEnded(job.state())) continue;
    if (NormalDirectory(job.spec().checkpoints().directory()) != directory) continue;
    return refuse(absl::StrCat("job '", job.id(), "'"));
  }
  if (claimed_directories_.contains(directory)) return refuse("a job that is being submitted");
  for (const Holding& holding : holdings_) {
    if (holding.directory != directory || *holding.released) continue;
    return absl::UnavailableError(
        absl::StrCat("checkpoints.directory: '", directory,
                     "' does not answer; an earlier submission, or a job that has ended, still "
                     "holds it until it does"));
  }
  claimed_directories_.insert(directory);
  return absl::OkStatus();
}

void JobTable::ReleaseDirectory(const std::string& directory) {
  MutexLock lock(&mutex_);
  claimed_directories_.erase(directory);
}

std::shared_ptr<CheckpointHold> JobTable::MakeHold(const std::string& directory) {
  holdings_.erase(std::remove_if(holdings_.begin(), holdings_.end(),
                                 [](const Holding& holding) { return holding.released->load(); }),
                  holdings_.end());
  auto hold = std::make_shared<CheckpointHold>(environment_.file_system, directory);
  holdings_.push_back({NormalDirectory(directory), hold->released()});
  return hold;
}

// It may be a network's that does not answer.
absl::StatusOr<std::shared_ptr<CheckpointHold>> JobTable::HoldDirectory(
    const JobSpec& spec, const std::function<bool()>& cancelled) {
  const std::string& directory = spec.checkpoints().directory();
  if (directory.empty()) return nullptr;
  using Held = std::shared_ptr<CheckpointHold>;
  Held hold;
  {
    MutexLock lock(&mutex_);
    hold = MakeHold(directory);
  }
  return environment_.file_caller->Call<Held>(
      absl::StrCat("checkpoints.directory: ", directory),
      [spec, files = environment_.file_system,
       hold = std::move(hold)]() mutable -> absl::StatusOr<Held> {
        // Only the call's: where it is refused it is released before that is told.
        Held held = std::move(hold);
        MILLRACE_RETURN_IF_ERROR(CheckNewOwner(files, spec, held.get()));
        return held;
      },
      cancelled);
}

// Where no worker is there, the job's runner asks for the plan later.
absl::Status JobTable::PlanInto(JobRecord& record, const std::function<bool()>& cancelled,
                                std::vector<std::string>& notices) {
  std::vector<std::string> lost;
  const auto plan =
      environment_.planner->Plan(record.spec(), environment_.plan_timeout, cancelled, &lost);
  if (absl::IsUnavailable(plan.status())) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(plan.status());
  const std::string remark = RemarkOnPlan(record.spec(), *plan);
  if (!remark.empty()) notices.push_back(remark);
  return SetPlan(*plan, record);
}

absl::StatusOr<std::shared_ptr<Job>> JobTable::Find(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  const auto number = by_id_.find(job_id);
  if (number == by_id_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no job '", job_id, "'"));
  }
  return jobs_.at(number->second).job;
}

std::vector<std::shared_ptr<Job>> JobTable::Jobs() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Job>> jobs;
  for (auto entry = jobs_.rbegin(); entry != jobs_.rend(); ++entry) {
    jobs.push_back(entry->second.job);
  }
  return jobs;
}

JobExplanation JobTable::Explain(Job& job) const {
  return coordinator::Explain(GatherFacts(job, environment_));
}

// A job that waits for its turn gets a runner at once, which finds that it is to end.
void JobTable::Cancel(const Job& job) {
  std::shared_ptr<JobRunner> runner;
  {
    MutexLock lock(&mutex_);
    const auto entry = jobs_.find(job.number());
    if (entry == jobs_.end()) return;
    if (!stopping_ && queue_.TakeOut(job.number())) {
      RunLocked(entry->second);
      RunWhoseTurnItIs();
    }
    runner = entry->second.runner;
  }
  if (runner != nullptr) runner->Cancel();
}

absl::Status JobTable::RequestCheckpoint(const Job& job, CheckpointRequest request) {
  const std::string name = absl::StrCat("job '", job.id(), "' ");
  if (job.spec().checkpoints().directory().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, "has no checkpoints; submit it with checkpoints.directory"));
  }
  if (const JobRecord record = job.record(); HasEnded(record.state())) {
    const CheckpointInfo& newest = record.checkpoint();
    return absl::FailedPreconditionError(absl::StrCat(
        name, "is ", JobState_Name(record.state()), " at step ", record.step(), "; ",
        record.has_checkpoint()
            ? absl::StrCat("its newest checkpoint is ", CheckpointFolder(newest.number()),
                           " of step ", newest.step())
            : "it has no checkpoint"));
  }
  const std::shared_ptr<JobRunner> runner = RunnerOf(job.id());
  if (runner == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, "has not begun; it waits for its turn"));
  }
  runner->RequestCheckpoint(std::move(request));
  return absl::OkStatus();
}

std::vector<std::pair<std::shared_ptr<Job>, std::shared_ptr<JobRunner>>> JobTable::WithCheckpoints()
    const {
  MutexLock lock(&mutex_);
  std::vector<std::pair<std::shared_ptr<Job>, std::shared_ptr<JobRunner>>> found;
  for (const auto& [number, entry] : jobs_) {
    if (entry.runner == nullptr || !entry.runner->trains()) continue;
    if (entry.job->spec().checkpoints().directory().empty()) continue;
    found.emplace_back(entry.job, entry.runner);
  }
  return found;
}

void JobTable::WriteCheckpoints(const std::string& cause, absl::Duration timeout) {
  std::vector<std::shared_ptr<CheckpointOutcome>> outcomes;
  for (const auto& [job, runner] : WithCheckpoints()) {
    LOG(INFO) << job->id() << ": a checkpoint, since " << cause;
    outcomes.push_back(std::make_shared<CheckpointOutcome>());
    runner->RequestCheckpoint(
        {.cause = cause, .urgent = true, .done = [outcome = outcomes.back()](const auto& result) {
           outcome->Set(result);
         }});
  }
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  for (const auto& outcome : outcomes) outcome->AwaitFor(deadline - Clock::Real()->Now());
}

void JobTable::OnPsDraining(const PsMember& ps) {
  auto jobs = WithCheckpoints();
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                            [&](const auto& each) {
                              return each.first->ElementsOn(ps.registration.directory_id()) == 0;
                            }),
             jobs.end());
  const auto countdown =
      std::make_shared<Countdown>(jobs.size() + 1, [registry = environment_.registry, id = ps.id] {
        CoordinatorMessage message;
        message.mutable_may_leave();
        registry->Send(id, message);
      });
  for (const auto& [job, runner] : jobs) {
    runner->RequestCheckpoint({.cause = absl::StrCat(ps.registration.name(), " stops"),
                               .urgent = true,
                               .done = [countdown](const auto&) { countdown->OneHasEnded(); }});
  }
  countdown->OneHasEnded();
}

void JobTable::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  retention_.Stop();
  for (const auto& runner : Runners()) runner->Stop();
  std::map<uint64_t, Entry> jobs;
  {
    MutexLock lock(&mutex_);
    jobs = jobs_;
    for (auto& [number, entry] : jobs_) entry.runner.reset();
  }
  std::vector<std::shared_ptr<CheckpointHold>> holds;
  for (auto& [number, entry] : jobs) {
    entry.runner.reset();  // They end here, outside the lock.
    if (entry.hold != nullptr) holds.push_back(entry.hold);
  }
  ReleaseHolds(std::move(holds));
}

void JobTable::OnPsJoined(const RegisterPs& ps) {
  std::set<std::string> unknown;
  std::vector<StrayShard> strays;
  {
    MutexLock lock(&mutex_);
    for (const ShardStatus& shard : ps.shards()) {
      const auto number = by_id_.find(shard.job_id());
      if (number == by_id_.end()) {
        unknown.insert(PrintableName(shard.job_id()));
      } else if (shard.shard() < kMaxShards &&
                 !jobs_.at(number->second).job->HasShardOn(ps.directory_id(), shard.shard())) {
        strays.push_back({shard.job_id(), shard.shard(), ps.directory_id()});
      }
    }
  }
  retention_.DropStrays(strays);
  LOG_IF(WARNING, !unknown.empty())
      << ps.name() << " holds shards of jobs that are not in this coordinator's journal, "
      << Printable(absl::StrJoin(unknown, ", "))
      << ": they stay there, unused; serve them with the journal "
      << "that they belong to, or start the server on an empty --data_dir";
}

void JobTable::OnMembersChanged() {
  {
    MutexLock lock(&members_mutex_);
    std::vector<WorkerCapacity> workers;
    for (const WorkerMember& worker : environment_.registry->Workers()) {
      workers.push_back({worker.id, worker.registration.lease_slots(), worker.registration.name()});
    }
    environment_.dispatcher->SetWorkers(workers);
  }
  environment_.planner->OnMembersChanged();
  for (const auto& runner : Runners()) runner->OnMembersChanged();
  retention_.Wake();
}

void JobTable::OnWorkerMessage(const WorkerMember& worker, const MemberMessage& message) {
  switch (message.kind_case()) {
    case MemberMessage::kPlanResult:
      environment_.planner->OnPlanResult(worker, message.plan_result());
      break;
    case MemberMessage::kStepResult:
      if (auto runner = RunnerOf(message.step_result().job_id())) {
        runner->OnStepResult(worker, message.step_result());
      }
      break;
    case MemberMessage::kLeaseReturned:
      if (auto runner = RunnerOf(message.lease_returned().job_id())) {
        runner->OnLeaseReturned(worker, message.lease_returned());
      }
      break;
    case MemberMessage::kEvaluationResult:
      if (auto runner = RunnerOf(message.evaluation_result().job_id())) {
        runner->OnEvaluationResult(worker, message.evaluation_result());
      }
      break;
    case MemberMessage::kJobPrepared:
      if (auto runner = RunnerOf(message.job_prepared().job_id())) {
        runner->OnJobPrepared(worker, message.job_prepared());
      }
      break;
    case MemberMessage::kLeaving:
      environment_.planner->OnLeaving(worker);
      break;
    case MemberMessage::kDraining:
      environment_.dispatcher->SetDraining(worker.id);
      break;
    default:
      break;
  }
}

std::shared_ptr<JobRunner> JobTable::RunnerOf(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  const auto number = by_id_.find(job_id);
  return number == by_id_.end() ? nullptr : jobs_.at(number->second).runner;
}

std::vector<std::shared_ptr<JobRunner>> JobTable::Runners() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<JobRunner>> runners;
  for (const auto& [number, entry] : jobs_) {
    if (entry.runner != nullptr) runners.push_back(entry.runner);
  }
  return runners;
}

std::vector<std::shared_ptr<Job>> JobTable::EndedJobs() {
  std::vector<std::shared_ptr<JobRunner>> finished;  // Destroyed outside the lock.
  std::vector<std::shared_ptr<Job>> jobs;
  MutexLock lock(&mutex_);
  for (auto& [number, entry] : jobs_) {
    if (entry.runner != nullptr && entry.runner->finished()) {
      finished.push_back(std::move(entry.runner));
      entry.hold.reset();
    }
    if (entry.runner == nullptr && HasEnded(entry.job->state())) jobs.push_back(entry.job);
  }
  return jobs;
}

absl::Status JobTable::Forget(const Job& job) {
  {
    MutexLock lock(&mutex_);
    if (job.number() == jobs_.rbegin()->first) return absl::OkStatus();  // Numbers go on from it.
  }
  MILLRACE_RETURN_IF_ERROR(journal_->Forget(job.number()));
  MutexLock lock(&mutex_);
  jobs_.erase(job.number());
  by_id_.erase(job.id());
  by_request_.erase(job.request_id());
  return absl::OkStatus();
}

uint64_t JobTable::ElementsOn(const std::string& directory_id) const {
  uint64_t elements = 0;
  for (const auto& job : Jobs()) elements += job->ElementsOn(directory_id);
  return elements;
}

}  // namespace millrace::coordinator
