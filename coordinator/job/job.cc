#include "coordinator/job/job.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/job_state.h"
#include "common/printable.h"
#include "common/proto_time.h"
#include "common/status_macros.h"
#include "coordinator/job/evaluation_verdict.h"
#include "coordinator/job/shard_placement.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// Of these, some are for evaluations: what workers tell of training must not take their place.
constexpr size_t kMostKnownMetrics = 200;
constexpr size_t kMostTrainingMetrics = 100;
// Between two lines of the log about the same trouble.
constexpr int kLogSeconds = 60;
constexpr char kRestarted[] = "the coordinator was started again";

// Without letters and digits that look alike.
std::string DrawTag() {
  constexpr absl::string_view kLetters = "abcdefghjkmnpqrstuvwxyz23456789";
  constexpr int kLength = 4;
  std::random_device random;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string tag;
  for (int i = 0; i < kLength; ++i) tag += kLetters[letter(random)];
  return tag;
}

std::string WithReason(const std::string& whom, const std::string& why) {
  return why.empty() ? whom : absl::StrCat(whom, " (", why, "),");
}

std::string WithoutDigits(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), absl::ascii_isdigit), text.end());
  return text;
}

StepTimeSum StepTimesOf(const JobRecord& record) {
  return {record.step_times(), record.timed_steps()};
}

}  // namespace

std::string MakeJobId(const std::string& name, uint64_t number) {
  return absl::StrCat(name.empty() ? "job" : name, "-", number, "-", DrawTag());
}

Job::Job(JobRecord record, uint64_t last_event, Journal* journal, Clock* clock)
    : id_(record.job_id()),
      spec_(record.spec()),
      number_(record.number()),
      request_id_(record.request_id()),
      journal_(journal),
      clock_(clock),
      // The last event of a job that has ended is told again to those who ask.
      events_(
          HasEnded(record.state()) && last_event > 0 ? last_event - 1 : last_event,
          [this](uint64_t sequence) {
            const absl::Status status = journal_->WriteEvents(number_, sequence, step_);
            if (status.ok()) return;
            LOG_EVERY_T(ERROR, kLogSeconds) << id_ << ": " << status;
          },
          clock),
      step_(record.step()),
      record_(std::move(record)) {
  if (HasEnded(record_.state())) events_.Close(StateEvent());
  if (record_.state() != RUNNING) return;
  const absl::Time now = clock_->Now();
  time_.Resume(record_.time_spent(), FromTimestamp(record_.started()), now, "the coordinator");
  recovering_ = {kRestarted, now};
  time_.Begin(now, TimeUse::kRecovering);
}

JobRecord Job::record() const {
  MutexLock lock(&mutex_);
  return record_;
}

uint64_t Job::record_bytes() const {
  MutexLock lock(&mutex_);
  return record_.ByteSizeLong();
}

JobState Job::state() const {
  MutexLock lock(&mutex_);
  return record_.state();
}

absl::Time Job::ended_at() const {
  MutexLock lock(&mutex_);
  return HasEnded(record_.state()) ? FromTimestamp(record_.ended()) : absl::InfiniteFuture();
}

bool Job::HasShards() const {
  MutexLock lock(&mutex_);
  return std::any_of(record_.shards().begin(), record_.shards().end(),
                     [](const ShardPlacement& shard) { return !shard.dropped(); });
}

bool Job::HasShardOn(const std::string& directory_id, uint32_t shard) const {
  MutexLock lock(&mutex_);
  return IsPlacedOn(record_, directory_id, shard);
}

void Job::AddPlaced(PlacedByDirectory* placed) const {
  MutexLock lock(&mutex_);
  for (const ShardPlacement& shard : record_.shards()) {
    if (shard.dropped()) continue;
    PlacedShards& there = (*placed)[shard.directory_id()];
    if (there.server.empty()) {
      there.server = shard.server();
      there.address = shard.address();
    }
    ++there.shards;
    there.elements += ElementsOf(shard);
  }
}

uint64_t Job::ElementsOn(const std::string& directory_id) const {
  MutexLock lock(&mutex_);
  uint64_t elements = 0;
  for (const ShardPlacement& shard : record_.shards()) {
    if (!shard.dropped() && shard.directory_id() == directory_id) elements += ElementsOf(shard);
  }
  return elements;
}

std::string Job::MessageLocked() const {
  if (turn_) {
    return absl::StrCat("waits for its turn (", turn_->jobs_before,
                        turn_->jobs_before == 1 ? " job" : " jobs",
                        " before it; --max_running_jobs is ", turn_->max_running, ")");
  }
  if (waits_for_.empty()) return record_.message();
  const absl::Duration waited = absl::Floor(clock_->Now() - waits_since_, absl::Seconds(1));
  return absl::StrCat("waits for ", waits_for_, " for ", absl::ToInt64Seconds(waited), " s");
}

JobStatus Job::Status() const {
  JobStatus status = Summary();
  *status.mutable_spec() = spec_;
  return status;
}

JobStatus Job::Summary() const {
  MutexLock lock(&mutex_);
  JobStatus status;
  status.set_job_id(id_);
  status.mutable_spec()->set_name(spec_.name());
  status.set_state(record_.state());
  status.set_message(MessageLocked());
  status.set_step(step_);
  status.set_total_steps(EndStep(record_));
  *status.mutable_metrics() = record_.metrics();
  if (record_.has_submitted()) *status.mutable_submitted() = record_.submitted();
  if (record_.has_started()) *status.mutable_started() = record_.started();
  if (record_.has_ended()) *status.mutable_ended() = record_.ended();
  status.set_generation(record_.generation());
  status.set_steps_run_again(record_.steps_run_again());
  status.set_more_may_have_run_again(record_.more_may_have_run_again());
  if (record_.has_checkpoint()) *status.mutable_checkpoint() = record_.checkpoint();
  if (record_.has_stopping()) *status.mutable_stopping() = record_.stopping();
  if (record_.has_stopped_early()) *status.mutable_stopped_early() = record_.stopped_early();
  if (record_.has_best()) *status.mutable_best() = record_.best();
  status.mutable_warnings()->Assign(warnings_.begin(), warnings_.end());
  if (record_.timed_steps() > 0) *status.mutable_step_times() = StepTimesOf(record_).Mean();
  if (record_.has_started()) {
    *status.mutable_time_spent() = time_.running() ? time_.At(clock_->Now()) : record_.time_spent();
  }
  return status;
}

absl::Status Job::Update(const std::function<void(JobRecord&)>& change,
                         const std::function<void()>& once_journaled) {
  JobRecord record = this->record();
  change(record);
  record.set_step(step_);
  SetTimeSpent(record);
  MILLRACE_RETURN_IF_ERROR(journal_->Write(record));
  if (once_journaled) once_journaled();
  MutexLock lock(&mutex_);
  record_ = std::move(record);
  return absl::OkStatus();
}

// A job that ends has spent the time up to its end, even where the journal takes longer.
void Job::SetTimeSpent(JobRecord& record) const {
  MutexLock lock(&mutex_);
  if (!time_.running()) return;
  const bool ends = HasEnded(record.state());
  *record.mutable_time_spent() = time_.At(ends ? FromTimestamp(record.ended()) : clock_->Now());
}

void Job::Change(const std::function<void(JobRecord&)>& change) {
  MutexLock lock(&mutex_);
  change(record_);
}

bool Job::SetMoveTrouble(const std::string& why) {
  MutexLock lock(&mutex_);
  return std::exchange(move_trouble_, why) != why && !why.empty();
}

std::string Job::move_trouble() const {
  MutexLock lock(&mutex_);
  return move_trouble_;
}

void Job::SetWarnings(std::vector<std::string> warnings) {
  MutexLock lock(&mutex_);
  warnings_ = std::move(warnings);
}

absl::Status Job::SetState(JobState state, const std::string& message,
                           std::vector<std::string> warnings,
                           const std::function<void()>& once_journaled) {
  const google::protobuf::Timestamp now = ToTimestamp(clock_->Now());
  const auto change = [&](JobRecord& record) {
    record.set_state(state);
    record.set_message(message);
    if (state == RUNNING) *record.mutable_started() = now;
    if (HasEnded(state)) *record.mutable_ended() = now;
  };
  MILLRACE_RETURN_IF_ERROR(Update(change, once_journaled));
  if (state == RUNNING || HasEnded(state)) {
    MutexLock lock(&mutex_);
    if (state == RUNNING) time_.Start(FromTimestamp(now));
    if (HasEnded(state)) time_.End(FromTimestamp(now));
    recovering_ = {};
  }
  ClearWaiting();
  if (HasEnded(state)) SetWarnings(std::move(warnings));
  LOG(INFO) << id_ << ": " << JobState_Name(state) << (message.empty() ? "" : ": ")
            << OneLine(message);
  if (HasEnded(state)) {
    events_.Close(StateEvent());
    ended_.SignalAll();
  } else {
    AnnounceState();
  }
  return absl::OkStatus();
}

void Job::AnnounceState() { events_.Append(StateEvent()); }

JobEvent Job::StateEvent() const {
  MutexLock lock(&mutex_);
  JobEvent event;
  StateChanged& changed = *event.mutable_state_changed();
  changed.set_state(JobState_Name(record_.state()));
  changed.set_message(MessageLocked());
  changed.set_step(step_);
  *changed.mutable_metrics() = record_.metrics();
  return event;
}

void Job::AddStepTimes(const StepTimeSum& times) {
  MutexLock lock(&mutex_);
  StepTimeSum sum = StepTimesOf(record_);
  sum.Add(times);
  *record_.mutable_step_times() = sum.times;
  record_.set_timed_steps(sum.steps);
}

void Job::AddMetrics(const google::protobuf::Map<std::string, double>& metrics) {
  MutexLock lock(&mutex_);
  auto& known = *record_.mutable_metrics();
  for (const auto& [name, value] : metrics) {
    const size_t limit = absl::StartsWith(name, "eval_") ? kMostKnownMetrics : kMostTrainingMetrics;
    if (known.size() < limit || known.contains(name)) known[name] = value;
  }
}

void Job::SetWaiting(const std::string& whom, absl::optional<absl::Time> since,
                     const std::string& why) {
  const std::string text = WithReason(whom, why);
  const std::string in_words = WithReason(whom, WithoutDigits(why));
  bool changed = false;
  {
    MutexLock lock(&mutex_);
    if (since || waits_for_.empty()) waits_since_ = since.value_or(clock_->Now());
    changed = waits_for_in_words_ != in_words;
    waits_for_ = text;
    waits_for_in_words_ = in_words;
    stalled_ = false;
  }
  if (changed) AppendNotice(absl::StrCat("waits for ", absl::StripSuffix(text, ",")));
}

void Job::SetStalled(const std::string& whom, absl::Time since, bool is_sure) {
  MutexLock lock(&mutex_);
  waits_for_ = waits_for_in_words_ = whom;
  waits_since_ = since;
  stalled_ = !is_sure;
}

void Job::ClearWaiting() {
  MutexLock lock(&mutex_);
  waits_for_.clear();
  waits_for_in_words_.clear();
}

void Job::SetTurn(size_t jobs_before, size_t max_running) {
  MutexLock lock(&mutex_);
  turn_ = Turn{jobs_before, max_running};
}

absl::optional<Job::Waiting> Job::waiting() const {
  MutexLock lock(&mutex_);
  if (turn_) return Waiting{MessageLocked(), FromTimestamp(record_.submitted()), true, false};
  if (waits_for_.empty()) return absl::nullopt;
  return Waiting{waits_for_, waits_since_, false, stalled_};
}

void Job::Spend(TimeUse use, const std::string& whom) {
  MutexLock lock(&mutex_);
  time_.Begin(clock_->Now(), use, whom);
}

void Job::CountTime() {
  MutexLock lock(&mutex_);
  time_.Count(clock_->Now());
}

void Job::HasSpent(TimeUse use, const std::string& whom) {
  MutexLock lock(&mutex_);
  time_.Settle(clock_->Now(), use, whom);
}

void Job::HasWaitedPresumably(const std::string& whom) {
  MutexLock lock(&mutex_);
  time_.SettleGuess(clock_->Now(), whom);
}

void Job::HasWaitedSince(const std::string& whom, absl::Time since) {
  MutexLock lock(&mutex_);
  time_.SettleWaiting(clock_->Now(), whom, since);
}

void Job::SetRecovering(const std::string& cause) {
  MutexLock lock(&mutex_);
  recovering_ = {cause, clock_->Now()};
  time_.Begin(clock_->Now(), TimeUse::kRecovering);
}

void Job::ClearRecovering() {
  MutexLock lock(&mutex_);
  recovering_ = {};
  time_.Begin(clock_->Now(), TimeUse::kTraining);
}

Job::Recovering Job::recovering() const {
  MutexLock lock(&mutex_);
  return recovering_;
}

void Job::SetShardNews(std::vector<ShardNews> news) {
  MutexLock lock(&mutex_);
  shard_news_ = std::move(news);
}

std::vector<ShardNews> Job::shard_news() const {
  MutexLock lock(&mutex_);
  return shard_news_;
}

void Job::AnnounceTurn() {
  std::string message;
  {
    MutexLock lock(&mutex_);
    if (!turn_) return;
    message = MessageLocked();
  }
  AppendNotice(message);
}

void Job::ClearTurn() {
  MutexLock lock(&mutex_);
  turn_.reset();
}

void Job::AppendNotice(const std::string& message) {
  LOG(INFO) << id_ << ": " << OneLine(message);
  JobEvent event;
  event.mutable_notice()->set_message(OneLine(message));
  events_.Append(std::move(event));
}

bool Job::WaitUntilEnded(absl::Duration timeout) const {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  MutexLock lock(&mutex_);
  while (!HasEnded(record_.state())) {
    if (Clock::Real()->WaitUntil(&ended_, &mutex_, deadline)) break;
  }
  return HasEnded(record_.state());
}

}  // namespace millrace::coordinator
