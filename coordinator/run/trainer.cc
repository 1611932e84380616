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
#include "coordinator/run/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/retry.h"
#include "common/status_macros.h"
#include "coordinator/run/route.h"
#include "coordinator/shards/merge_progress.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// How long it is waited for somebody to let go of what is pinned.
constexpr absl::Duration kPinPatience = absl::Seconds(30);
// How long shards that are to move wait for a checkpoint that is being written.
constexpr absl::Duration kCheckpointPatience = absl::Minutes(1);

StepRules RulesOf(const JobSpec& spec, uint64_t total_steps) {
  return {.total_steps = total_steps,
          .replicas = Replicas(spec),
          .staleness_bound = StalenessBound(spec),
          .backup = spec.synchronous().backup(),
          .pulls_ahead = PullsAhead(spec)};
}

}  // namespace

Trainer::Trainer(const Parts& parts)
    : job_(*parts.job),
      environment_(*parts.environment),
      inbox_(*parts.inbox),
      reporter_(*parts.reporter),
      audit_(*parts.audit),
      relocator_(*parts.relocator),
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
  furthest_ = merged.furthest;
  barrier_ = BarrierFrom(frontier_, evaluator);
  flushed_ = false;
  reports_are_false_ = false;
  unserved_.reset();
  applied_ = merged.done.size();
  moved_at_ = clock_->Now();
  blocked_.reset();
  rest_wanted_since_.reset();
  waits_for_checkpoint_ = false;
  judged_.reset();
  barrier_due_ = absl::InfinitePast();
  barrier_backoff_.Reset();
  pins_full_since_.reset();
  tick_due_ = clock_->Now();
  audit_.Begin(generation_);
  seen_.clear();
  newest_version_ = NewestVersion(attached.shards);
  cuts_.Start(attached.shards, before.version, clock_->Now());
  norms_.Start(attached.shards);
  AttachCheckpointer(attached, shards);
  shards.CancelPoll();  // Of what they were before.
  poll_due_ = clock_->Now();
  watch_.Start(generation_, synchronous_ ? absl::make_optional(epoch_) : absl::nullopt,
               attached.shards);
  job_.SetShardNews(watch_.news());
  progress_.Start(merged.done.size(), before.steps, clock_->Now());
  job_.ClearRecovering();
  // Its step is journaled with the event: after another start the same loss must not count again.
  reporter_.Resumed(merged.done.size(), merged.done.watermark());
  TellRecovery(before, attached);
  TellMissedEvaluations(merged.done, shards, evaluator);
  const JobRecord record = job_.record();
  environment_.dispatcher->Start(RulesOf(job_.spec(), total_steps_),
                                 MakeRoute(record, record.plan(), shards.RoutingAt(generation_)),
                                 merged.done, barrier_);
  AdvanceCheckpoints({.applied = merged.done.size(), .watermark = merged.done.watermark()});
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

// Between what all shards have and what one of them has, no state is that of exactly the steps
// before a barrier. Only somebody who pushed a step that was not handed out makes this more than an
// evaluation that a recovery broke off.
void Trainer::TellMissedEvaluations(const AppliedSet& done, const ShardGroup& shards,
                                    const Evaluator& evaluator) {
  const uint64_t due = evaluator.BarrierFrom(std::max<uint64_t>(done.watermark(), 1));
  const uint64_t next = evaluator.BarrierFrom(frontier_);
  if (due >= next || next == told_missed_before_) return;
  told_missed_before_ = next;
  job_.AppendNotice(absl::StrCat("the job is not evaluated before step ", next,
                                 ", though it would have been at step ", due, ": ",
                                 shards.NameOf(furthest_), " has step ", frontier_ - 1,
                                 " already, while steps before it are missing"));
}

// No step from the end on was handed out. With one there is no state that the job could end with,
// however often its shards are attached.
absl::Status Trainer::CheckFrontier(const ShardGroup& shards) const {
  if (frontier_ <= total_steps_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(shards.NameOf(furthest_), " has step ", frontier_ - 1,
                   ", which no worker was given: the job has stopped early, and its last step is ",
                   total_steps_ - 1));
}

absl::StatusOr<Trainer::End> Trainer::Train(ShardGroup& shards, Evaluator& evaluator) {
  MILLRACE_RETURN_IF_ERROR(CheckFrontier(shards));
  for (;;) {
    MILLRACE_ASSIGN_OR_RETURN(const Next next, LookAround(shards, evaluator));
    if (next == Next::kEnd) return End{.finished = true};
    if (next == Next::kDetach) return End{.before = WhatThereIs(), .unserved = unserved_};
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
  const auto gone = evaluator.LookAtPins();
  MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
  if (gone) return Detach(*gone);
  if (!HandlePoll(shards) || IsUnserved(shards, evaluator)) return Next::kDetach;
  // Before the shards are told which cuts may go.
  AdvanceCheckpoints(environment_.dispatcher->GetProgress(job_.id()).value());
  MILLRACE_RETURN_IF_ERROR(ConcludeIfSaved(evaluator));
  RestIfShardsMove(environment_.dispatcher->GetProgress(job_.id()).value(), shards, evaluator);
  StartPollIfDue(shards);
  const Dispatcher::TickResult tick = environment_.dispatcher->Tick(job_.id());
  tick_due_ = tick.next;
  if (!tick.trouble.empty()) reporter_.TellTrouble(tick.trouble);
  for (const std::string& slow : tick.slow) job_.AppendNotice(Printable(slow));
  // Before the progress is looked at: what comes later wakes.
  inbox_.WakeAt(std::min(checkpoint_wake_, norms_.due_at()));
  const auto progress = environment_.dispatcher->GetProgress(job_.id()).value();
  if (progress.leases_are_used_up) {
    return Detach(absl::StrCat("generation ", generation_, " has had all its leases"));
  }
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

void Trainer::AccountForTime(const Dispatcher::Progress& progress, const Evaluator& evaluator,
                             const ShardGroup& shards) {
  if (waits_for_checkpoint_) return job_.HasSpent(TimeUse::kCheckpointing);
  if (blocked_) return job_.HasSpent(TimeUse::kWaiting, WhomInShort(blocked_->whom));
  const bool evaluates = progress.at_barrier && evaluator.under_way();
  if (const auto use =
          progress_.Look(progress.applied, evaluates, progress.late_after, clock_->Now())) {
    return job_.HasSpent(*use);
  }
  if (evaluates) return job_.HasSpent(TimeUse::kEvaluating);
  if (norms_.stall()) return job_.HasSpent(TimeUse::kWaiting, WhomInShort(norms_.stall()->whom));
  // Known later than the worker that waits for the same server.
  if (const auto silent = watch_.SilentLongest(clock_->Now())) {
    return job_.HasWaitedSince(WhomInShort(shards.servers().DescribeServer(*silent)),
                               watch_.news().at(*silent).silent_since);
  }
  const auto stall = FindStall(shards);
  job_.HasWaitedPresumably(stall ? WhomInShort(stall->whom) : "a worker");
}

Trainer::Next Trainer::Detach(std::string cause) {
  LOG(INFO) << job_.id() << ": " << OneLine(cause);
  cause_ = std::move(cause);
  return Next::kDetach;
}

// All steps before the barrier were reported, and none after it was handed out.
absl::StatusOr<Trainer::Next> Trainer::PassBarrier(const Dispatcher::Progress& progress,
                                                   ShardGroup& shards, Evaluator& evaluator) {
  const bool at_the_end = progress.watermark >= total_steps_;
  const bool is_evaluated = evaluator.BarrierFrom(barrier_) == barrier_;
  if (is_evaluated && evaluator.under_way()) return Next::kWait;
  if (!at_the_end && MayRest(shards, evaluator)) return LeaveServers(shards);
  if (at_the_end && !flushed_) return FlushTheEnd(shards);
  if (is_evaluated && evaluator.IsDueAt(barrier_)) {
    job_.Spend(TimeUse::kEvaluating);
    const bool is_waited_for = IsWaitedFor(job_.record(), barrier_);
    const auto pinned = evaluator.Begin(barrier_, generation_, is_waited_for);
    MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
    if (PinsStay(pinned.status())) return Detach(std::string(pinned.status().message()));
    if (!pinned.ok()) return AfterError(pinned.status(), shards);
    if (pinned->state != BarrierState::kReached) return AfterCheck(*pinned, shards);
    // The next barrier is the end again, or may be: an evaluation under way is waited for.
    if (at_the_end || is_waited_for) return Next::kAgain;
  } else if (at_the_end) {
    return CheckpointTheEnd();
  }
  if (checkpointer_ != nullptr && checkpointer_->MayBeDueAt(barrier_)) return Next::kWait;
  const auto pinned = PinForCheckpoint(progress, shards);
  MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
  if (pinned && PinsStay(*pinned)) return Detach(std::string(pinned->message()));
  Unblock();
  job_.Spend(TimeUse::kTraining);
  barrier_ = BarrierFrom(barrier_ + 1, evaluator);
  environment_.dispatcher->SetBarrier(job_.id(), barrier_);
  return Next::kAgain;
}

// Whether shards are to move, and an evaluation or a checkpoint, which would be given up for that,
// is not under way; a checkpoint that takes long does not keep a server from being evacuated.
bool Trainer::MayRest(const ShardGroup& shards, const Evaluator& evaluator) {
  if (!relocator_.WantsToMove(shards)) {
    rest_wanted_since_.reset();
    return false;
  }
  const absl::Time now = clock_->Now();
  if (!rest_wanted_since_) rest_wanted_since_ = now;
  if (evaluator.under_way()) return false;
  const bool saves = checkpointer_ != nullptr && checkpointer_->under_way();
  return !saves || now - *rest_wanted_since_ >= kCheckpointPatience;
}

void Trainer::RestIfShardsMove(const Dispatcher::Progress& progress, const ShardGroup& shards,
                               const Evaluator& evaluator) {
  if (progress.at_barrier || frontier_ > barrier_ || !MayRest(shards, evaluator)) return;
  barrier_ = environment_.dispatcher->SetBarrierHere(job_.id(), frontier_, barrier_);
}

// The shards' own word counts: what was reported may still be being applied.
absl::StatusOr<Trainer::Next> Trainer::LeaveServers(ShardGroup& shards) {
  const auto statuses = shards.Get();
  MILLRACE_RETURN_IF_ERROR(inbox_.interrupt());
  if (!statuses.ok()) return AfterError(statuses.status(), shards);
  const BarrierCheck check = CheckBarrier(*statuses, barrier_);
  if (check.state != BarrierState::kReached) return AfterCheck(check, shards);
  return Detach(relocator_.Begin(shards));
}

absl::StatusOr<Trainer::Next> Trainer::FlushTheEnd(ShardGroup& shards) {
  if (!blocked_) job_.SetStalled("all shards to write their last cut", clock_->Now());
  job_.Spend(TimeUse::kWaiting, "the last cut");
  const auto flushed = shards.FlushCut(generation_);
  job_.CountTime();
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
  LOG(WARNING) << job_.id() << ": " << OneLine(status.ToString());
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

// `status` of pinning: whether others have pinned as many states as there may be for long. They may
// have died; a new generation ends their pins.
bool Trainer::PinsStay(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) {
    pins_full_since_.reset();
    return false;
  }
  if (!pins_full_since_) pins_full_since_ = clock_->Now();
  return clock_->Now() - *pins_full_since_ >= kPinPatience;
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

}  // namespace millrace::coordinator
