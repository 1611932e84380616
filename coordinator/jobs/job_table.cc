#include "coordinator/jobs/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_state.h"
#include "common/status_macros.h"
#include "coordinator/explain/explain.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/jobs/job_facts.h"
#include "coordinator/jobs/member_list.h"
#include "coordinator/run/relocator.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kStartAgain = absl::Seconds(1);

}  // namespace

JobTable::JobTable(const RunnerEnvironment& environment, const RetentionLimits& limits,
                   Journal* journal, const QueueLimits& queue_limits)
    : environment_(environment),
      journal_(journal),
      held_directories_(environment.file_system),
      queue_(queue_limits),
      start_later_(environment.clock, kStartAgain, [this] { RunNext(); }),
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
    MutexLock lock(&mutex_);
    AddLocked(std::move(job));
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

absl::Status JobTable::Reserve(uint64_t bytes) {
  MutexLock lock(&mutex_);
  return queue_.Reserve(bytes);
}

void JobTable::Release(uint64_t bytes) {
  MutexLock lock(&mutex_);
  queue_.Release(bytes);
}

absl::StatusOr<uint64_t> JobTable::NextNumber() {
  MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("the coordinator stops");
  return ++last_number_;
}

// Jobs that wait for their turns may be thousands, and hold nothing: each would keep a file open.
absl::Status JobTable::Add(std::shared_ptr<Job> job, std::shared_ptr<CheckpointHold>& hold) {
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
  for (const uint64_t number : std::exchange(unstarted_, {})) StartRunner(jobs_.at(number));
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
  if (entry.hold == nullptr && !directory.empty()) {
    entry.hold = held_directories_.MakeHold(directory);
  }
  entry.runner = std::make_shared<JobRunner>(entry.job, environment_, entry.hold);
  StartRunner(entry);
}

// Where the system has no thread left the job keeps its turn, and waits for one.
void JobTable::StartRunner(Entry& entry) {
  const absl::Status started = entry.runner->Start();
  if (started.ok()) return;
  entry.job->SetWaiting("a thread of the coordinator", absl::nullopt,
                        std::string(started.message()));
  unstarted_.insert(entry.job->number());
  start_later_.Ask();
}

absl::StatusOr<std::shared_ptr<Job>> JobTable::Find(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  const auto number = by_id_.find(job_id);
  if (number == by_id_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no job '", job_id, "'"));
  }
  return jobs_.at(number->second).job;
}

std::shared_ptr<Job> JobTable::FindRequest(const std::string& request_id) const {
  MutexLock lock(&mutex_);
  const auto id = by_request_.find(request_id);
  return id == by_request_.end() ? nullptr : jobs_.at(by_id_.at(id->second)).job;
}

std::shared_ptr<Job> JobTable::FindUnended(const std::string& directory) const {
  MutexLock lock(&mutex_);
  for (const auto& [number, entry] : jobs_) {
    const Job& job = *entry.job;
    if (HasEnded(job.state())) continue;
    if (NormalDirectory(job.spec().checkpoints().directory()) == directory) return entry.job;
  }
  return nullptr;
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

ListMembersResponse JobTable::Members() const { return ListMembers(environment_, Jobs()); }

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

absl::StatusOr<RebalanceJobResponse> JobTable::Rebalance(const Job& job) {
  const JobRecord record = job.record();
  const std::shared_ptr<JobRunner> runner = RunnerOf(job.id());
  if (runner == nullptr || record.state() != RUNNING) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job '", job.id(), "' is ", JobState_Name(record.state()), "; must be RUNNING"));
  }
  if (environment_.OpenPsServers().empty()) {
    return absl::FailedPreconditionError(
        "no ps server is there that could take shards: all are gone or evacuated; `millrace "
        "members` lists them");
  }
  RebalanceJobResponse response;
  const std::vector<ShardPlacement> shards(record.shards().begin(), record.shards().end());
  for (const ShardMove& move :
       PlanRebalance(environment_, shards, AvoidedServers(environment_.clock))) {
    PlannedMove& planned = *response.add_moves();
    planned.set_shard(move.shard);
    planned.set_elements(ElementsOf(shards[move.shard]));
    planned.set_from(shards[move.shard].server());
    planned.set_to(move.to.name);
  }
  if (!response.moves().empty()) runner->Rebalance();
  return response;
}

std::vector<JobTable::Running> JobTable::WithCheckpoints() const {
  MutexLock lock(&mutex_);
  std::vector<Running> found;
  for (const auto& [number, entry] : jobs_) {
    if (entry.runner == nullptr || !entry.runner->trains()) continue;
    if (entry.job->spec().checkpoints().directory().empty()) continue;
    found.push_back({entry.job, entry.runner});
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

void JobTable::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  start_later_.Stop();
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
