// A checkpoint that is under way goes through these phases, in this order:
//
//   kAwaitingCut or kAwaitingBarrier   the state that is to be saved; nothing is written yet, and
//                                      if the shards go now it is just tried again
//   kBeginning -> kWriting             from here on it is a checkpoint that was begun: it succeeds
//   -> kCommitting                     or is given up, and people are told which
//   -> kRemoving                       only of one that was given up
//
// It counts from the moment that its manifest is there. So whatever happens before, to whomever,
// leaves files that count for nothing, and the next one collects them.
//
// Every call to the file system is a BackgroundCall that owns all it uses; while one does not
// return nothing else is begun in the directory, and the job goes on.
#include "coordinator/checkpoint/checkpointer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// A directory that does not answer for this long is trouble.
constexpr absl::Duration kFilePatience = absl::Minutes(1);
// How long a job waits at its first barrier to learn what is in the directory.
constexpr absl::Duration kLookPatience = absl::Seconds(10);
// For what is nearly done when the job ends or the coordinator stops; of the machine's clock.
constexpr absl::Duration kClosePatience = absl::Seconds(3);

std::string CutId(uint64_t number) { return absl::StrCat("checkpoint-", number); }

}  // namespace

Checkpointer::Checkpointer(Options options, CheckpointRequests* requests)
    : options_(std::move(options)),
      requests_(requests),
      clock_(options_.clock),
      replicas_(Replicas(options_.spec)),
      exact_(replicas_ == 0 && options_.spec.checkpoints().exact()),
      files_(std::make_shared<const CheckpointFiles>(
          options_.file_system, options_.spec.checkpoints(), options_.owner, options_.hold)),
      policy_(options_.spec),
      total_steps_(options_.total_steps),
      write_patience_(options_.bytes) {
  if (options_.newest.number() > 0) newest_ = options_.newest;
  last_number_ = std::max(options_.newest.number(), options_.last_number);
  has_begun_ = options_.newest.number() > 0;
  StartPolicy();
}

void Checkpointer::Attach(const Attached& attached) {
  attached_ = attached;
  for (const uint64_t number : attached.damaged) last_number_ = std::max(last_number_, number);
  looks_again_ |= attached.is_remade;
  if (newest_ && attached.damaged.contains(newest_->number())) newest_.reset();
  best_.ForgetPause();  // There are other servers, perhaps.
  last_.Stop();
  wanted_version_ = 0;
  if (attached.watermark < total_steps_) last_is_saved_ = false;
}

void Checkpointer::Detach(const std::string& cause) {
  if (attached_.shards == nullptr) return;
  const absl::Status why = absl::UnavailableError(cause);
  best_.Drop();
  if (attempt_) {
    attempt_->is_best = false;
    attempt_->exact_step.reset();  // The pins are gone.
  }
  switch (phase_) {
    case Phase::kAwaitingCut:
    case Phase::kAwaitingBarrier:
      PutBack();
      break;
    case Phase::kBeginning:
      attempt_->given_up = why;
      break;
    case Phase::kWriting:
      attached_.shards->CancelWrite();
      Fail(why);
      break;
    case Phase::kCommitting:
      // The state may not be the last one any more, nor that of an evaluation that counts; one
      // whose manifest is there by now says so all the same.
      attempt_->is_last = false;
      if (attempt_->decision != nullptr && attempt_->decision->GiveUp()) attempt_->given_up = why;
      break;
    default:
      break;
  }
  attached_.shards = nullptr;
}

void Checkpointer::Advance(const Situation& situation) {
  CHECK(attached_.shards != nullptr);
  if (LooksAround()) WantNextVersion(situation);  // Steps do not wait for it.
  while (Step(situation)) {
  }
  if (call_ != nullptr && clock_->Now() - call_since_ > kFilePatience) {
    trouble_ = absl::StrCat(options_.spec.checkpoints().directory(),
                            " does not answer; no checkpoint can be written");
  }
  if (phase_ == Phase::kWriting && WritingFor() > write_patience_.UntilTold()) {
    trouble_ = WhatIsWritten();
  }
}

// Returns whether there may be more to do.
bool Checkpointer::Step(const Situation& situation) {
  switch (phase_) {
    case Phase::kUnknown:
      looks_again_ = false;
      StartFileCall(Phase::kLooking,
                    [files = files_, damaged = attached_.damaged](FileResult* result) {
                      auto found = files->LookAround(damaged);
                      result->status = found.status();
                      if (found.ok()) result->found = *std::move(found);
                    });
      return true;
    case Phase::kIdle:
      if (looks_again_) phase_ = Phase::kUnknown;
      return looks_again_ || BeginBest() || BeginIfDue(situation);
    case Phase::kAwaitingCut:
      if (GiveWayToBest()) return true;
      JoinUrgent();
      return FindCut(situation);
    case Phase::kAwaitingBarrier:
      if (GiveWayToBest()) return true;
      JoinUrgent();
      // Steps that are out are nobody's any more.
      if (situation.is_deserted && IsTired(situation)) StopWaiting(situation);
      return false;
    case Phase::kWriting:
      return TakeAnswers();
    case Phase::kLooking:
    case Phase::kBeginning:
    case Phase::kCommitting:
    case Phase::kRemoving:
      break;
  }
  if (!FileCallHasEnded()) return false;
  if (phase_ == Phase::kLooking) {
    AfterLooking();
  } else if (phase_ == Phase::kBeginning) {
    AfterBeginning();
  } else if (phase_ == Phase::kCommitting) {
    AfterCommitting();
  } else {
    LOG_IF(WARNING, !result_->status.ok()) << options_.owner.job_id << ": " << result_->status;
    phase_ = Phase::kIdle;
  }
  return true;
}

void Checkpointer::StartFileCall(Phase phase, std::function<void(FileResult*)> call) {
  phase_ = phase;
  call_since_ = clock_->Now();
  result_ = std::make_shared<FileResult>();
  call_ = std::make_unique<BackgroundCall>(
      [result = result_, call = std::move(call)] { call(result.get()); }, options_.wake,
      options_.start_thread);
  if (!call_->status().ok()) result_->status = call_->status();
}

bool Checkpointer::FileCallHasEnded() {
  if (!call_->HasEnded()) return false;
  call_.reset();
  return true;
}

void Checkpointer::AfterLooking() {
  phase_ = Phase::kIdle;
  trouble_ = result_->status.ok() ? result_->found.trouble : std::string(result_->status.message());
  if (result_->status.ok()) newest_.reset();  // Somebody may have removed it.
  if (const auto& furthest = result_->found.furthest) {
    newest_ = InfoOf(options_.spec.checkpoints().directory(), *furthest);
    newest_is_exact_ = furthest->exact();
    last_number_ = std::max(last_number_, furthest->number());
    has_begun_ = true;
    write_patience_.SetNewest(FromProto(furthest->took()));
    last_is_saved_ = furthest->ended() && attached_.watermark == total_steps_;
  }
  StartPolicy();
}

void Checkpointer::StartPolicy() {
  const absl::Time now = clock_->Now();
  if (newest_) {
    policy_.Start(newest_->step(), FromTimestamp(newest_->written()), now);
  } else {
    policy_.Start(options_.restored.step(), now, now);
  }
}

// In the job's directory, its own or the one that it goes on from. Null: none.
const CheckpointInfo* Checkpointer::NewestHere() const {
  if (newest_) return &*newest_;
  return options_.restored_is_here ? &options_.restored : nullptr;
}

// Whether it has all that there is to save.
bool Checkpointer::HasState(const CheckpointInfo& checkpoint, const Situation& situation) const {
  const uint64_t watermark = situation.watermark;
  if (replicas_ > 0) return checkpoint.step() >= watermark / replicas_ * replicas_;
  if (newest_ && !newest_is_exact_) return false;
  return checkpoint.step() == watermark && situation.applied == watermark;
}

bool Checkpointer::BeginIfDue(const Situation& situation) {
  // Those that are left wait there, where they are limited.
  if (waiting_.empty()) waiting_ = requests_->Take();
  WantNextVersion(situation);
  if (last_.begun() || situation.watermark >= total_steps_) return false;  // See MayEnd.
  const CheckpointInfo* const newest = NewestHere();
  if (newest != nullptr && HasState(*newest, situation)) {
    Answer(std::exchange(waiting_, {}), *newest);
    return false;
  }
  const absl::Time now = clock_->Now();
  std::string cause = waiting_.empty() ? "" : waiting_.front().cause;
  if (cause.empty() && situation.applied > 0) cause = policy_.WhyDue(situation.watermark, now);
  if (cause.empty()) return false;
  attempt_.emplace();
  attempt_->cause = std::move(cause);
  attempt_->requests = std::exchange(waiting_, {});
  attempt_->begun = now;
  attempt_->at_step = situation.watermark;
  if (exact_) {
    phase_ = Phase::kAwaitingBarrier;
    return true;
  }
  if (replicas_ == 0) {
    BeginFiles();
    return true;
  }
  AwaitCut(situation);
  return true;
}

uint64_t Checkpointer::BarrierFrom(uint64_t step) const {
  const uint64_t total = total_steps_;
  const uint64_t every = CheckpointEverySteps(options_.spec);
  if (!exact_ || every == 0 || every > total || step >= total) return total;
  return std::min(total, (step + every - 1) / every * every);
}

bool Checkpointer::WantsBarrier() const { return phase_ == Phase::kAwaitingBarrier; }

bool Checkpointer::MayBeDueAt(uint64_t barrier) const {
  const uint64_t every = CheckpointEverySteps(options_.spec);
  if (!exact_ || !LooksAround() || every == 0 || barrier % every != 0) return false;
  return barrier < total_steps_ &&
         (call_ == nullptr || clock_->Now() - call_since_ < kLookPatience);
}

bool Checkpointer::IsDueAt(uint64_t barrier) const {
  return phase_ == Phase::kAwaitingBarrier && barrier < total_steps_;
}

std::string Checkpointer::cut_id() const { return CutId(cuts_); }

std::vector<std::string> Checkpointer::LastCutIds() const {
  if (cuts_ == 0) return {};
  return {CutId(cuts_ - 1), CutId(cuts_)};
}

void Checkpointer::Pinned(uint64_t step, absl::Duration held_up) {
  attempt_->exact_step = step;
  attempt_->at_step = step;
  attempt_->held_up = held_up;
  BeginFiles();
}

void Checkpointer::NotPinned(const absl::Status& why) { Fail(why); }

// It was not begun in earnest: those who asked for it wait for the next one.
void Checkpointer::PutBack() {
  for (CheckpointRequest& request : attempt_->requests) waiting_.push_back(std::move(request));
  attempt_->requests.clear();
  wanted_version_ = 0;
  End();
}

void Checkpointer::End() {
  attempt_.reset();
  phase_ = Phase::kIdle;
}

void Checkpointer::Answer(std::vector<CheckpointRequest> requests,
                          const absl::StatusOr<CheckpointInfo>& result) {
  for (CheckpointRequest& request : requests) answers_.emplace_back(std::move(request), result);
}

void Checkpointer::TellRequests() {
  for (const auto& [request, result] : std::exchange(answers_, {})) {
    if (request.done) request.done(result);
  }
}

std::vector<CheckpointEnded> Checkpointer::TakeEnded() { return std::exchange(ended_, {}); }

void Checkpointer::Close(const absl::Status& status) {
  if (attached_.shards != nullptr) Detach(std::string(status.message()));
  const bool done = call_ != nullptr && call_->AwaitFor(kClosePatience);
  if (done && phase_ == Phase::kCommitting) {
    call_.reset();
    AfterCommitting();
  }
  if (attempt_) Answer(std::exchange(attempt_->requests, {}), status);
  for (CheckpointRequest& request : requests_->Take()) waiting_.push_back(std::move(request));
  absl::StatusOr<CheckpointInfo> result = status;
  if (last_is_saved_ && newest_) result = *newest_;
  Answer(std::exchange(waiting_, {}), result);
}

}  // namespace millrace::coordinator
