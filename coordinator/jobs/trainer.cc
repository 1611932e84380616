// What a worker says is news, what the shards have is the truth. Reports move dispatch on, which
// needs no more than that they are nearly always true. Whatever is told to people as a fact rests
// on the shards' own word: an evaluation on the applied sets of what was pinned, the job's end on
// those of what was flushed. The order at the end is: flush, look at what was flushed, evaluate
// that, and end. A shard that is lost meanwhile has to be attached again, which comes back here;
// and as long as no step is missing then, what was evaluated is still the state.
//
// Where a step that was reported is not on some shard, either the shard was lost, or the report was
// not true. A shard that was lost is closed until it gets a new generation. So an open shard of our
// generation that answers a question asked after the report, and has not got the step, tells of a
// worker that lies (or has an error); see ReportAudit.
#include "coordinator/jobs/trainer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/retry.h"
#include "common/status_macros.h"
#include "coordinator/jobs/merge_progress.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kPollPeriod = absl::Seconds(1);
// A shard that has not answered for this long is told of as silent.
constexpr absl::Duration kSilence = absl::Seconds(2);
// So long a job without a step counts as training, where nobody knows how long its steps take.
constexpr absl::Duration kStallPatience = absl::Seconds(10);
// While a checkpoint waits for a cut.
constexpr absl::Duration kQuickPollPeriod = absl::Milliseconds(100);

StepRules RulesOf(const JobSpec& spec, uint64_t total_steps) {
  return {.total_steps = total_steps,
          .replicas = Replicas(spec),
          .staleness_bound = StalenessBound(spec),
          .backup = spec.synchronous().backup()};
}

SetRoute RouteOf(const Job& job, const ShardGroup& shards, uint64_t generation) {
  SetRoute route;
  route.set_job_id(job.id());
  *route.mutable_spec() = job.spec();
  *route.mutable_routing() = shards.RoutingAt(generation);
  *route.mutable_plan() = job.record().plan();
  return route;
}

uint64_t NewestVersion(const std::vector<ShardStatus>& shards) {
  uint64_t newest = 0;
  for (const ShardStatus& shard : shards) newest = std::max(newest, shard.version());
  return newest;
}

}  // namespace

Trainer::Trainer(const Parts& parts)
    : job_(*parts.job),
      environment_(*parts.environment),
      inbox_(*parts.inbox),
      reporter_(*parts.reporter),
      audit_(*parts.audit),
      checkpointer_(parts.checkpointer),
      clock_(parts.environment->clock),
      synchronous_(Replicas(parts.job->spec()) > 0),
      total_steps_(EndStep(parts.job->record())),
      norms_(parts.job->spec(), total_steps_, clock_),
      cuts_(CutPeriod(parts.job->spec())) {}

void Trainer::Start(const Before& before, const Attached& attached, ShardGroup& shards,
                    Evaluator& evaluator) {
  const MergedProgress& merged = attached.merged;
  generation_ = attached.generation;
  epoch_ = attached.shards[0].epoch();
  if (merged.done.watermark() < total_steps_) evaluator.ForgetTheEnd();
  // A state that some shard has left behind cannot be evaluated any more.
  frontier_ = std::max<uint64_t>(merged.frontier, 1);
  barrier_ = BarrierFrom(frontier_, evaluator);
  flushed_ = false;
  reports_are_false_ = false;
  blocked_.reset();
  waits_for_checkpoint_ = false;
  judged_.reset();
  barrier_due_ = absl::InfinitePast();
  barrier_backoff_.Reset();
  tick_due_ = clock_->Now();
  audit_.Begin(generation_);
  seen_.clear();
  newest_version_ = NewestVersion(attached.shards);
  cuts_.Start(attached.shards, before.version, clock_->Now());
  norms_.Start(attached.shards);
  AttachCheckpointer(attached, shards);
  poll_due_ = clock_->Now();
  news_.assign(attached.shards.size(), ShardNews());
  for (const ShardStatus& shard : attached.shards) news_.at(shard.shard()).status = shard;
  job_.SetShardNews(news_);
  steps_seen_ = merged.done.size();
  steps_seen_at_ = clock_->Now();
  steps_before_ = std::max(steps_before_, before.steps);
  job_.ClearRecovering();
  // Its step is journaled with the event: after another start the same loss must not count again.
  reporter_.Resumed(merged.done.size(), merged.done.watermark());
  TellRecovery(before, attached);
  environment_.dispatcher->Start(RulesOf(job_.spec(), total_steps_),
                                 RouteOf(job_, shards, generation_), merged.done, barrier_);
  AdvanceCheckpoints({.applied = merged.done.size(), .watermark = merged.done.watermark()});
}

void Trainer::AttachCheckpointer(const Attached& attached, ShardGroup& shards) {
  if (checkpointer_ == nullptr) return;
  const auto numbers = job_.record().damaged_checkpoints();
  const std::set<uint64_t> damaged(numbers.begin(), numbers.end());
  ForgetDamagedBest(damaged);
  checkpointer_->Attach({.shards = &shards,
                         .count = static_cast<int>(shards.placements().size()),
                         .generation = generation_,
                         .epoch = epoch_,
                         .watermark = attached.merged.done.watermark(),
                         .is_remade = attached.load.has_value(),
                         .damaged = damaged});
}

uint64_t Trainer::BarrierFrom(uint64_t step, const Evaluator& evaluator) const {
  const uint64_t barrier = evaluator.BarrierFrom(step);
  if (checkpointer_ == nullptr) return barrier;
  return std::min(barrier, checkpointer_->BarrierFrom(step));
}

void Trainer::TellRecovery(const Before& before, const Attached& attached) {
  if (before.cause.empty()) return;
  const AppliedSet& done = attached.merged.done;
  uint64_t lost = CountLost(before.done, done);
  if (before.done.size() == 0 && before.steps > done.size()) lost = before.steps - done.size();
  const bool may_be_more = before.is_least && (lost > 0 || attached.may_lack_steps);
  if (lost > 0 || may_be_more) {
    reporter_.JournalSoon([&](JobRecord& record) {
      record.set_steps_run_again(record.steps_run_again() + lost);
      if (may_be_more) record.set_more_may_have_run_again(true);
    });
  }
  Recovered recovered;
  recovered.set_cause(attached.remake_cause.empty() ? before.cause : attached.remake_cause);
  recovered.set_step(done.size());
  recovered.set_steps_lost(lost);
  recovered.set_more_may_be_lost(may_be_more);
  *recovered.mutable_took() = ToProto(clock_->Now() - before.since);
  recovered.set_how(attached.how);
  if (attached.load) *recovered.mutable_load() = ToProto(*attached.load);
  reporter_.TellRecovered(recovered);
  if (attached.may_lack_steps) {
    reporter_.JournalSoon([](JobRecord& record) { record.clear_may_lack_steps(); });
  }
}

absl::StatusOr<Trainer::End> Trainer::Train(ShardGroup& shards, Evaluator& evaluator) {
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(const Next next, LookAround(shards, evaluator));
    if (next == Next::kEnd) return End{.finished = true};
    if (next == Next::kDetach) return End{.before = WhatThereIs()};
    if (next == Next::kAgain) continue;
    absl::Time wake = std::min(tick_due_, reporter_.next());
    if (!shards.polling()) wake = std::min(wake, poll_due_);  // Its end wakes.
    if (blocked_ && !waits_for_checkpoint_) wake = std::min(wake, barrier_due_);
    if (norms_.stall()) wake = std::min(wake, norms_.next_try());
    MILLRACE_RETURN_IF_ERROR(inbox_.WaitUntil(std::max(wake, clock_->Now())));
  }
}

Trainer::Before Trainer::WhatThereIs() const {
  Before before{.cause = cause_, .since = clock_->Now()};
  // What was only reported is not lost.
  if (!reports_are_false_) before.done = environment_.dispatcher->DoneSteps(job_.id());
  before.steps = before.done.size();
  const uint32_t replicas = Replicas(job_.spec());
  const uint64_t done_versions = replicas > 0 ? before.done.watermark() / replicas : 0;
  before.version = std::max(newest_version_, done_versions);
  return before;
}

absl::StatusOr<Trainer::Next> Trainer::LookAround(ShardGroup& shards, Evaluator& evaluator) {
  if (const std::string moved = shards.Moved(); !moved.empty()) {
    return Detach(absl::StrCat(moved, " went, or was started again"));
  }
  MILLRACE_RETURN_IF_ERROR(HandleEvaluations(evaluator));
  if (!HandlePoll(shards)) return Next::kDetach;
  // Before the shards are told which cuts may go.
  AdvanceCheckpoints(environment_.dispatcher->GetProgress(job_.id()).value());
  MILLRACE_RETURN_IF_ERROR(ConcludeIfSaved(evaluator));
  StartPollIfDue(shards);
  const Dispatcher::TickResult tick = environment_.dispatcher->Tick(job_.id());
  tick_due_ = tick.next;
  if (!tick.trouble.empty()) reporter_.TellTrouble(tick.trouble);
  for (const std::string& slow : tick.slow) job_.AppendNotice(Printable(slow));
  // Before the progress is looked at: what comes later wakes.
  inbox_.WakeAt(std::min(checkpoint_wake_, norms_.due_at()));
  const auto progress = environment_.dispatcher->GetProgress(job_.id()).value();
  const bool awaits_norm = norms_.IsDue(progress.watermark);
  if (awaits_norm && norms_.MayTry()) {
    MILLRACE_ASSIGN_OR_RETURN(const Next next, ExchangeNorms(shards));
    if (next != Next::kWait) return next;
  }
  AccountForTime(progress, evaluator, shards);
  const bool at_barrier = progress.at_barrier;
  if (!at_barrier) blocked_.reset();
  MILLRACE_RETURN_IF_ERROR(
      reporter_.Tell(progress, blocked_, [&](const std::vector<WorkerMember>& workers) {
        if (norms_.stall()) return norms_.stall();
        return at_barrier ? evaluator.FindStall(workers) : FindStall(shards);
      }));
  if (!at_barrier || awaits_norm || clock_->Now() < barrier_due_) return Next::kWait;
  return PassBarrier(progress, shards, evaluator);
}

// All contributions to a version were reported, and it waits for the norm of its gradient.
absl::StatusOr<Trainer::Next> Trainer::ExchangeNorms(ShardGroup& shards) {
  const absl::Status status = norms_.Try(shards, job_);
  MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
  if (status.ok()) return Next::kAgain;
  switch (Classify(status.code())) {
    case Failure::kPassing:
    case Failure::kFull:
      return Next::kWait;
    case Failure::kStale:
      return Detach(std::string(status.message()));
    default:
      // Attaching has what is damaged made again, and asks a shard that is elsewhere what it has.
      if (!absl::IsDataLoss(status) && !absl::IsOutOfRange(status)) return status;
      return Detach(std::string(status.message()));
  }
}

// Between two looks steps were done, or none was; then somebody keeps the job waiting as soon as
// that takes longer than steps do.
void Trainer::AccountForTime(const Dispatcher::Progress& progress, const Evaluator& evaluator,
                             const ShardGroup& shards) {
  const absl::Time now = clock_->Now();
  if (waits_for_checkpoint_) return job_.HasSpent(TimeUse::kCheckpointing);
  if (blocked_) return job_.HasSpent(TimeUse::kWaiting, WhomInShort(blocked_->whom));
  const bool evaluates = progress.at_barrier && evaluator.under_way();
  const bool moved = progress.applied != steps_seen_;
  const bool patient = now - steps_seen_at_ <= std::min(progress.late_after, kStallPatience);
  if (moved || evaluates) steps_seen_at_ = now;
  steps_seen_ = progress.applied;
  if (moved || (patient && !evaluates)) {
    const bool again = progress.applied < steps_before_;
    steps_before_ = std::max(steps_before_, progress.applied);
    return job_.HasSpent(again ? TimeUse::kRunningAgain : TimeUse::kTraining);
  }
  if (evaluates) return job_.HasSpent(TimeUse::kEvaluating);
  const auto stall = norms_.stall() ? norms_.stall() : FindStall(shards);
  job_.HasSpent(TimeUse::kWaiting, stall ? WhomInShort(stall->whom) : "a worker");
}

Trainer::Next Trainer::Detach(std::string cause) {
  LOG(INFO) << job_.id() << ": " << cause;
  cause_ = std::move(cause);
  return Next::kDetach;
}

// All steps before the barrier were reported, and none after it was handed out.
absl::StatusOr<Trainer::Next> Trainer::PassBarrier(const Dispatcher::Progress& progress,
                                                   ShardGroup& shards, Evaluator& evaluator) {
  const bool at_the_end = progress.watermark >= total_steps_;
  const bool is_evaluated = evaluator.BarrierFrom(barrier_) == barrier_;
  if (is_evaluated && evaluator.under_way()) return Next::kWait;
  if (at_the_end && !flushed_) return FlushTheEnd(shards);
  if (is_evaluated && evaluator.IsDueAt(barrier_)) {
    job_.Spend(TimeUse::kEvaluating);
    const bool is_waited_for = IsWaitedFor(job_.record(), barrier_);
    const auto pinned = evaluator.Begin(barrier_, generation_, is_waited_for);
    MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
    if (!pinned.ok()) return AfterError(pinned.status(), shards);
    if (pinned->state != BarrierState::kReached) return AfterCheck(*pinned, shards);
    // The next barrier is the end again, or may be: an evaluation under way is waited for.
    if (at_the_end || is_waited_for) return Next::kAgain;
  } else if (at_the_end) {
    return CheckpointTheEnd();
  }
  if (checkpointer_ != nullptr && checkpointer_->MayBeDueAt(barrier_)) return Next::kWait;
  PinForCheckpoint(progress, shards);
  MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
  Unblock();
  job_.Spend(TimeUse::kTraining);
  barrier_ = BarrierFrom(barrier_ + 1, evaluator);
  environment_.dispatcher->SetBarrier(job_.id(), barrier_);
  return Next::kAgain;
}

absl::StatusOr<Trainer::Next> Trainer::FlushTheEnd(ShardGroup& shards) {
  if (!blocked_) job_.SetStalled("all shards to write their last cut", clock_->Now());
  job_.Spend(TimeUse::kWaiting, "the last cut");
  const auto flushed = shards.FlushCut(generation_);
  MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
  if (!flushed.ok()) return AfterError(flushed.status(), shards);
  const BarrierCheck check = CheckBarrier(*flushed, total_steps_);
  if (check.state != BarrierState::kReached) return AfterCheck(check, shards);
  flushed_ = true;
  last_cut_.reset();
  if (synchronous_) {
    last_cut_.emplace();
    last_cut_->set_epoch(flushed->front().epoch());
    last_cut_->set_version(flushed->front().version());
  }
  Unblock();
  return Next::kAgain;
}

// What is missing to a checkpoint is no reason not to end.
Trainer::Next Trainer::CheckpointTheEnd() {
  if (checkpointer_ == nullptr || checkpointer_->MayEnd(last_cut_)) return Next::kEnd;
  const absl::Time since = blocked_ && waits_for_checkpoint_ ? blocked_->since : clock_->Now();
  blocked_ = Dispatcher::Stall{checkpointer_->WhatTheEndWaitsFor(), since};
  waits_for_checkpoint_ = true;
  barrier_due_ = absl::InfinitePast();  // Whatever wakes the runner may be the end of it.
  return Next::kWait;
}

void Trainer::AdvanceCheckpoints(const Dispatcher::Progress& progress) {
  if (checkpointer_ == nullptr) return;
  checkpointer_->Advance({.applied = progress.applied,
                          .watermark = progress.watermark,
                          .newest_version = cuts_.newest_version(),
                          .version_ahead = cuts_.VersionAhead(),
                          .shards = seen_,
                          .is_deserted = environment_.registry->Workers().empty()});
  reporter_.TellCheckpoints(*checkpointer_);
  checkpoint_wake_ = std::max(checkpointer_->next_step(), progress.watermark + 1);
  inbox_.WakeAt(std::min(checkpoint_wake_, norms_.due_at()));
  if (std::exchange(wanted_version_, checkpointer_->wanted_version()) != wanted_version_) {
    poll_due_ = clock_->Now();  // The shards are to hear of it before they are there.
  }
  cuts_.Want(wanted_version_);
  cuts_.Hold(checkpointer_->held_cut());
  if (checkpointer_->awaits_cut())
    poll_due_ = std::min(poll_due_, clock_->Now() + kQuickPollPeriod);
  if (checkpointer_->WantsBarrier() && !progress.at_barrier) {
    barrier_ = environment_.dispatcher->SetBarrierHere(job_.id(), frontier_, barrier_);
  }
}

// Beside an evaluation of the same state, or alone. If that does not work the job goes on.
void Trainer::PinForCheckpoint(const Dispatcher::Progress& progress, ShardGroup& shards) {
  AdvanceCheckpoints(progress);
  if (checkpointer_ == nullptr || !checkpointer_->IsDueAt(barrier_)) return;
  job_.Spend(TimeUse::kCheckpointing);
  absl::Status status = shards.UnpinCut(generation_, Checkpointer::kCutId);
  if (status.ok()) {
    const auto pinned = shards.PinCut(generation_, Checkpointer::kCutId);
    status = pinned.status();
    if (pinned.ok()) {
      const BarrierCheck check = CheckBarrier(*pinned, barrier_);
      if (check.state == BarrierState::kReached) {
        const absl::Duration held = clock_->Now() - std::min(progress.held_since, clock_->Now());
        return checkpointer_->Pinned(barrier_, held);
      }
      status = absl::AbortedError(
          absl::StrCat(shards.NameOf(check.shard), " has not exactly the steps before ", barrier_));
    }
  }
  checkpointer_->NotPinned(status);
}

// A shard's state is not the one that the reports told of.
Trainer::Next Trainer::AfterCheck(const BarrierCheck& check, ShardGroup& shards) {
  const std::string shard = shards.NameOf(check.shard);
  if (check.state == BarrierState::kBeingApplied) {
    Block(absl::StrCat(shard, " to apply the last version"));
    return Next::kWait;
  }
  if (check.state == BarrierState::kBeyond) {
    return Detach(absl::StrCat(shard, " has applied steps that were not handed out"));
  }
  audit_.BeginCheck();
  const auto truth = shards.Get();
  if (truth.ok() && shards.Moved().empty() && Audit(*truth)) return Next::kDetach;
  return Detach(absl::StrCat(shard, " has not got all steps that were reported"));
}

// A server that is there but cannot do what it is asked is asked again for as long as that takes:
// its disk may be full. Where it is another one than before, the shards are attached again.
absl::StatusOr<Trainer::Next> Trainer::AfterError(const absl::Status& status,
                                                  const ShardGroup& shards) {
  LOG(WARNING) << job_.id() << ": " << status;
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
      absl::IsResourceExhausted(status)) {
    Block(absl::StrCat(shards.failed_server(), ", which does not do what it is asked (",
                       std::string(status.message()), "),"));
    return Next::kWait;
  }
  // Attaching has what is damaged made again.
  if (!IsTransient(status.code()) && !absl::IsDataLoss(status)) return status;
  return Detach(std::string(status.message()));
}

void Trainer::Block(const std::string& whom) {
  const absl::Time since = blocked_ ? blocked_->since : clock_->Now();
  blocked_ = Dispatcher::Stall{whom, since};
  job_.SetStalled(whom, since);
  barrier_due_ = clock_->Now() + barrier_backoff_.Next();
}

void Trainer::Unblock() {
  blocked_.reset();
  barrier_backoff_.Reset();
  job_.ClearWaiting();
}

void Trainer::StartPollIfDue(ShardGroup& shards) {
  if (shards.polling() || clock_->Now() < poll_due_) return;
  const bool quick = checkpointer_ != nullptr && checkpointer_->awaits_cut();
  poll_due_ = clock_->Now() + (quick ? kQuickPollPeriod : kPollPeriod);
  poll_generation_ = generation_;
  polled_at_ = clock_->Now();
  audit_.BeginCheck();
  absl::optional<PlanCutsRequest> plan;
  if (synchronous_) plan = cuts_.Plan(generation_, clock_->Now());
  // The poll may outlive this object; the inbox outlives the shards.
  shards.StartPoll(plan, [inbox = &inbox_] { inbox->Wake(); });
}

// Returns false when the shards must be attached again.
bool Trainer::HandlePoll(ShardGroup& shards) {
  const auto poll = shards.TakePoll();
  if (!poll) NoteUnanswered(shards);
  if (!poll || poll_generation_ != generation_) return true;
  NoteNews(*poll);
  WarnOf(*poll, shards);
  if (!CheckIsOurs(*poll, shards)) return false;
  const bool all = std::all_of(poll->errors.begin(), poll->errors.end(),
                               [](const absl::Status& status) { return status.ok(); });
  if (!all) return true;
  seen_ = poll->shards;
  newest_version_ = std::max(newest_version_, NewestVersion(seen_));
  cuts_.Observe(seen_, clock_->Now());
  return !Audit(seen_);
}

void Trainer::NoteNews(const ShardGroup::Poll& poll) {
  for (uint32_t shard = 0; shard < poll.shards.size(); ++shard) {
    ShardNews& news = news_.at(shard);
    const absl::Status& error = poll.errors[shard];
    if (absl::IsCancelled(error)) return;
    if (error.ok()) {
      news = ShardNews();
      news.status = poll.shards[shard];
    } else {
      news.error = std::string(error.message());
      news.silent_since = std::min(news.silent_since, polled_at_);
    }
  }
  job_.SetShardNews(news_);
}

void Trainer::NoteUnanswered(const ShardGroup& shards) {
  if (!shards.polling() || poll_generation_ != generation_) return;
  if (clock_->Now() - polled_at_ < kSilence) return;
  for (const uint32_t shard : shards.Unanswered()) {
    news_.at(shard).silent_since = std::min(news_[shard].silent_since, polled_at_);
  }
  job_.SetShardNews(news_);
}

// Whether the shards that have answered are open, at our generation, in the epoch they were in.
bool Trainer::CheckIsOurs(const ShardGroup::Poll& poll, const ShardGroup& shards) {
  for (uint32_t shard = 0; shard < poll.shards.size(); ++shard) {
    const absl::Status& error = poll.errors[shard];
    const ShardStatus& status = poll.shards[shard];
    if (absl::IsFailedPrecondition(error) || absl::IsNotFound(error)) {
      Detach(std::string(error.message()));
      return false;
    }
    if (!error.ok()) continue;
    if (status.closed()) {
      Detach(absl::StrCat(shards.NameOf(shard), " was made anew ", DescribeOrigin(status)));
      return false;
    }
    if (status.generation() != generation_) {
      Detach(absl::StrCat(shards.NameOf(shard), " is at generation ", status.generation(),
                          ", which this coordinator did not set"));
      return false;
    }
    if (synchronous_ && status.epoch() != epoch_) {
      Detach(absl::StrCat(shards.NameOf(shard), " is in epoch ", status.epoch(), ", not ", epoch_));
      return false;
    }
  }
  return true;
}

// A server that does not answer once may be one that is being started again.
void Trainer::WarnOf(const ShardGroup::Poll& poll, const ShardGroup& shards) {
  std::map<std::string, std::string> warnings;
  const std::set<uint32_t> silent_before = std::exchange(silent_, {});
  for (uint32_t shard = 0; shard < poll.shards.size(); ++shard) {
    const absl::Status& error = poll.errors[shard];
    if (absl::IsCancelled(error)) return;
    if (!error.ok()) silent_.insert(shard);
    if (!error.ok() && silent_before.contains(shard)) {
      warnings[shards.NameOf(shard)] = std::string(error.message());
    } else if (!poll.shards[shard].trouble().empty()) {
      warnings[shards.placements()[shard].server()] = Printable(poll.shards[shard].trouble());
    }
  }
  reporter_.SetWarnings(warnings);
}

// `shards` were asked since the audit's check began. Returns whether a report was not true.
bool Trainer::Audit(const std::vector<ShardStatus>& shards) {
  for (const ShardStatus& shard : shards) {
    if (shard.closed() || shard.generation() != generation_) return false;
  }
  const auto merged = MergeProgress(shards);
  if (!merged.ok()) return false;
  std::vector<std::string> all;
  for (const ReportAudit::Offence& offence : audit_.Check(merged->done)) {
    all.push_back(absl::StrCat(offence.worker, " reported steps that shards have not got (step ",
                               offence.step, ", ", offence.steps, " in all)"));
    job_.AppendNotice(absl::StrCat(
        all.back(), offence.excluded ? "; it gets no more steps of this job" : "; they run again"));
    if (offence.excluded) Exclude(offence.worker);
  }
  if (all.empty()) return false;
  reports_are_false_ = true;
  Detach(absl::StrJoin(all, "; "));
  return true;
}

void Trainer::Exclude(const std::string& worker) {
  for (const WorkerMember& member : environment_.registry->Workers()) {
    if (member.registration.name() != worker) continue;
    environment_.dispatcher->SetPrepared(member.id, Refusal(job_.id(), audit_.WhyExcluded(worker)));
  }
}

JobPrepared Trainer::Refusal(const std::string& job_id, const std::string& why) {
  JobPrepared refusal;
  refusal.set_job_id(job_id);
  refusal.set_code(static_cast<int>(absl::StatusCode::kPermissionDenied));
  refusal.set_message(why);
  return refusal;
}

absl::optional<Dispatcher::Stall> Trainer::FindStall(const ShardGroup& shards) const {
  auto stall = environment_.dispatcher->FindStall(job_.id());
  if (!stall || !synchronous_ || seen_.empty()) return stall;
  const auto by_version = [](const auto& a, const auto& b) { return a.version() < b.version(); };
  const auto [oldest, newest] = std::minmax_element(seen_.begin(), seen_.end(), by_version);
  if (oldest->version() < newest->version()) {
    absl::StrAppend(&stall->whom, " (", shards.NameOf(oldest->shard()), " is at version ",
                    oldest->version(), ", others at ", newest->version(), ")");
  }
  return stall;
}

}  // namespace millrace::coordinator
