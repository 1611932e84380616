#include "coordinator/run/reporter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kProgressPeriod = absl::Seconds(1);
// A job that does not get on for this long says for whom it waits, and says so again this often.
constexpr absl::Duration kStallAfter = absl::Seconds(10);
constexpr absl::Duration kStallNoticePeriod = absl::Minutes(1);
// The journal has a running job's record, and with it the time it has spent, as of this long ago at
// most. How many steps were told it has beside that.
constexpr absl::Duration kSavePeriod = absl::Seconds(15);

constexpr char kWorker[] = "a worker";  // Who is missing where there is none.

std::string JournalTrouble(const absl::Status& status) {
  return absl::StrCat(kTheJournal, " cannot be written: ", std::string(status.message()));
}

}  // namespace

std::string WhyNotJournaled(const absl::Status& error) {
  return absl::StrCat("it cannot be written: ", std::string(error.message()));
}

Reporter::Reporter(Job* job, const RunnerEnvironment* environment, RunnerInbox* inbox)
    : job_(job),
      environment_(*environment),
      inbox_(inbox),
      clock_(environment->clock),
      moved_at_(clock_->Now()),
      saved_at_(clock_->Now()) {}

void Reporter::Count(const StepResult& result) {
  stats_.Add(result);
  step_times_.Add(result.times());
}

absl::Status Reporter::Wait(const std::string& whom, absl::Duration pause, const std::string& why) {
  if (std::exchange(stalled_, false)) job_->ClearWaiting();
  NobodyIsMissing();
  moved_at_ = clock_->Now();
  SpendOn(whom);
  job_->SetWaiting(whom, absl::nullopt, why);
  return Pause(pause);
}

// Who looks next may say what all of the time since the last call went into.
absl::Status Reporter::Pause(absl::Duration pause) {
  const absl::Status status = inbox_->WaitUntil(clock_->Now() + pause);
  job_->CountTime();
  return status;
}

// What is waited for while the shards are reached belongs to that.
void Reporter::SpendOn(const std::string& whom) {
  if (job_->recovering().cause.empty()) job_->Spend(TimeUse::kWaiting, WhomInShort(whom));
}

absl::Status Reporter::WaitForMembers(const std::map<std::string, std::string>& missing,
                                      absl::Duration pause) {
  MILLRACE_RETURN_IF_ERROR(NoteMissing(missing));
  return Pause(pause);
}

void Reporter::NobodyIsMissing() {
  if (!missing_since_.empty()) job_->ClearWaiting();
  missing_since_.clear();
}

// The job waits for members that are not there. A running job does not wait for ever.
absl::Status Reporter::NoteMissing(const std::map<std::string, std::string>& missing) {
  stalled_ = false;
  const absl::Time now = clock_->Now();
  moved_at_ = now;
  const std::map<std::string, absl::Time> before = std::exchange(missing_since_, {});
  std::pair<absl::Time, std::string> longest(absl::InfiniteFuture(), "");
  for (const auto& [name, whom] : missing) {
    const auto known = before.find(name);
    const absl::Time since = known == before.end() ? now : known->second;
    missing_since_[name] = since;
    longest = std::min(longest, {since, whom});
  }
  const auto how = [](std::string* out, const auto& member) { out->append(member.second); };
  SpendOn(longest.second);
  job_->SetWaiting(absl::StrJoin(missing, ", ", how), longest.first);
  if (job_->state() != RUNNING || now - longest.first < environment_.member_timeout) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("waited ", absl::FormatDuration(environment_.member_timeout), " for ",
                   longest.second, "; --member_timeout of the coordinator allows no more"));
}

absl::Status Reporter::Journal(const std::function<void(JobRecord&)>& change) {
  for (bool failed = false;; failed = true) {
    const absl::Status status = job_->Update(change);
    if (status.ok()) {
      save_due_ = false;
      if (failed) job_->ClearWaiting();
      return absl::OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(WaitForJournal(status));
  }
}

absl::Status Reporter::WaitForJournal(const absl::Status& error) {
  return Wait(kTheJournal, kJournalRetryPause, WhyNotJournaled(error));
}

void Reporter::JournalSoon(const std::function<void(JobRecord&)>& change) {
  job_->Change(change);
  save_due_ = true;
  SaveIfDue();
}

void Reporter::SaveIfDue() {
  if (!save_due_) return;
  saved_at_ = clock_->Now();
  const absl::Status status = job_->Update([](JobRecord&) {});
  save_due_ = !status.ok();
  const bool had_trouble = !journal_trouble_.empty();
  journal_trouble_ = status.ok() ? "" : JournalTrouble(status);
  ShowWarnings();
  if (had_trouble != save_due_) {
    job_->AppendNotice(save_due_ ? journal_trouble_
                                 : "the coordinator's journal can be written again");
  }
}

void Reporter::Resumed(uint64_t step, uint64_t watermark) {
  job_->ClearWaiting();
  stalled_ = false;
  job_->SetStep(step);
  watermark_ = watermark;
  moved_at_ = clock_->Now();
  stats_.Restart(clock_->Now());
  progress_due_ = clock_->Now() + kProgressPeriod;
}

absl::Status Reporter::Tell(const Dispatcher::Progress& progress,
                            const absl::optional<Dispatcher::Stall>& blocked,
                            const FindStall& find_stall) {
  TellNotices();
  job_->SetStep(progress.applied);
  PublishProgress(/*at_once=*/false);
  const std::vector<WorkerMember> workers = environment_.registry->Workers();
  if (workers.empty()) return NoteMissing({{kWorker, "a worker (none is connected)"}});
  const std::string refusals = environment_.dispatcher->WhyNobodyCan(job_->id());
  if (!refusals.empty()) {
    return NoteMissing(
        {{kWorker, absl::StrCat("a worker (no worker can run the job: ", refusals, ")")}});
  }
  NobodyIsMissing();
  const absl::Time now = clock_->Now();
  if (std::exchange(watermark_, progress.watermark) != progress.watermark) moved_at_ = now;
  if (blocked) {
    NoteStall(blocked);
  } else {
    NoteStall(now - moved_at_ >= kStallAfter ? find_stall(workers) : absl::nullopt);
  }
  return absl::OkStatus();
}

// While somebody works on it a job waits for as long as that takes; but it says for whom.
void Reporter::NoteStall(const absl::optional<Dispatcher::Stall>& stall) {
  stalled_ = stall.has_value();
  if (!stall) return job_->ClearWaiting();
  const absl::Time since = stall->since == absl::InfinitePast() ? moved_at_ : stall->since;
  job_->SetStalled(stall->whom, since, stall->is_sure);
  if (clock_->Now() - since >= kStallAfter) TellTrouble(job_->Status().message());
}

void Reporter::TellRest() {
  PublishProgress(/*at_once=*/true);
  TellNotices();
}

void Reporter::TellTrouble(const std::string& trouble) {
  const absl::Time now = clock_->Now();
  if (now < trouble_due_) return;
  trouble_due_ = now + kStallNoticePeriod;
  job_->AppendNotice(trouble);
}

void Reporter::TellNotices() {
  for (const std::string& notice : inbox_->TakeNotices()) job_->AppendNotice(notice);
}

void Reporter::TellRecovered(const Recovered& recovered) {
  JobEvent event;
  *event.mutable_recovered() = recovered;
  job_->events().Append(std::move(event));
}

void Reporter::TellCheckpoints(Checkpointer& checkpointer) {
  for (CheckpointEnded& ended : checkpointer.TakeEnded()) {
    JobEvent event;
    *event.mutable_checkpoint_ended() = std::move(ended);
    job_->events().Append(std::move(event));
  }
  const auto& newest = checkpointer.newest();
  if (newest && newest->number() != newest_checkpoint_) {
    newest_checkpoint_ = newest->number();
    JournalSoon([&](JobRecord& record) { *record.mutable_checkpoint() = *newest; });
  }
  if (checkpoint_trouble_ != checkpointer.trouble()) {
    checkpoint_trouble_ = checkpointer.trouble();
    ShowWarnings();
  }
  checkpointer.TellRequests();
}

// The status first: who was told of a notice finds it there.
void Reporter::SetWarnings(const std::map<std::string, std::string>& warnings) {
  const std::map<std::string, std::string> before = std::exchange(warnings_, warnings);
  ShowWarnings();
  for (const auto& [where, warning] : warnings) {
    if (!before.contains(where)) job_->AppendNotice(absl::StrCat(where, ": ", warning));
  }
  for (const auto& [where, warning] : before) {
    if (!warnings.contains(where)) {
      job_->AppendNotice(absl::StrCat(where, ": no longer: ", warning));
    }
  }
}

void Reporter::ShowWarnings() {
  std::vector<std::string> all;
  for (const auto& [where, warning] : warnings_) all.push_back(absl::StrCat(where, ": ", warning));
  if (!journal_trouble_.empty()) all.push_back(journal_trouble_);
  if (!checkpoint_trouble_.empty()) {
    all.push_back(absl::StrCat("checkpoints: ", checkpoint_trouble_));
  }
  job_->SetWarnings(std::move(all));
}

void Reporter::PublishProgress(bool at_once) {
  const absl::Time now = clock_->Now();
  if (!at_once && now < progress_due_) return;
  progress_due_ = now + kProgressPeriod;
  save_due_ |= now >= saved_at_ + kSavePeriod && job_->state() == RUNNING;
  SaveIfDue();
  auto progress = stats_.Take(now);
  if (!progress) return;
  job_->AddMetrics(progress->metrics());
  if (const StepTimeSum times = step_times_.Take(); times.steps > 0) {
    job_->AddStepTimes(times);
    *progress->mutable_step_times() = times.Mean();
  }
  const JobStatus status = job_->Status();
  progress->set_step(status.step());
  progress->set_total_steps(status.total_steps());
  progress->set_workers(environment_.registry->Workers().size());
  JobEvent event;
  *event.mutable_progress() = *std::move(progress);
  job_->events().Append(std::move(event));
}

}  // namespace millrace::coordinator
