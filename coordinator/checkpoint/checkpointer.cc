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

// How long the job's end tries to have a checkpoint.
constexpr absl::Duration kLastPatience = absl::Minutes(1);
// A directory that does not answer for this long is trouble.
constexpr absl::Duration kFilePatience = absl::Minutes(1);
// Shards that write for longer than this, and for twice as long as they did before, are told of.
constexpr absl::Duration kWriteIsSlow = absl::Minutes(5);
// They may write for this long, and for several times as long as they did before, and as long as a
// disk takes that writes so many bytes a second; a disk may hang for as long as it likes. It may
// also be slower than that, or shared by many jobs: after one that was given up for it the next has
// twice the time.
constexpr absl::Duration kWritePatience = absl::Minutes(10);
constexpr int kTimesAsLong = 4;
constexpr double kSlowestDisk = 1 << 20;
// How long a job waits at its first barrier to learn what is in the directory.
constexpr absl::Duration kLookPatience = absl::Seconds(10);
// For what is nearly done when the job ends or the coordinator stops; of the machine's clock.
constexpr absl::Duration kClosePatience = absl::Seconds(3);

constexpr char kAtTheEnd[] = "the job's end";

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
      total_steps_(options_.total_steps) {
  if (options_.newest.number() > 0) newest_ = options_.newest;
  last_number_ = options_.newest.number();
  has_begun_ = last_number_ > 0;
}

void Checkpointer::Attach(const Attached& attached) {
  attached_ = attached;
  looks_again_ |= attached.is_remade;
  if (newest_ && attached.damaged.contains(newest_->number())) newest_.reset();
  best_not_before_ = absl::InfinitePast();  // There are other servers, perhaps.
  at_end_ = false;
  wanted_version_ = 0;
  if (attached.watermark < total_steps_) last_is_saved_ = false;
}

void Checkpointer::Detach(const std::string& cause) {
  if (attached_.shards == nullptr) return;
  const absl::Status why = absl::UnavailableError(cause);
  best_.reset();
  if (attempt_) attempt_->is_best = false;
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
      attempt_->exact_step.reset();  // The pins are gone.
      Fail(why);
      break;
    case Phase::kCommitting:
      attempt_->is_last = false;  // The state may not be the last one any more.
      break;
    default:
      break;
  }
  attached_.shards = nullptr;
}

void Checkpointer::Advance(const Situation& situation) {
  CHECK(attached_.shards != nullptr);
  while (Step(situation)) {
  }
  if (call_ != nullptr && clock_->Now() - call_since_ > kFilePatience) {
    trouble_ = absl::StrCat(options_.spec.checkpoints().directory(),
                            " does not answer; no checkpoint can be written");
  }
  if (phase_ == Phase::kWriting && WritingFor() > std::max(kWriteIsSlow, 2 * last_took_)) {
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
      [result = result_, call = std::move(call)] { call(result.get()); }, options_.wake);
}

bool Checkpointer::FileCallHasEnded() {
  if (!call_->HasEnded()) return false;
  call_.reset();
  return true;
}

void Checkpointer::AfterLooking() {
  phase_ = Phase::kIdle;
  const absl::Time now = clock_->Now();
  trouble_ = result_->status.ok() ? result_->found.trouble : std::string(result_->status.message());
  if (result_->status.ok()) newest_.reset();  // Somebody may have removed it.
  if (const auto& furthest = result_->found.furthest) {
    newest_ = InfoOf(options_.spec.checkpoints().directory(), *furthest);
    newest_is_exact_ = furthest->exact();
    last_number_ = std::max(last_number_, furthest->number());
    has_begun_ = true;
    last_took_ = FromProto(furthest->took());
    last_is_saved_ = furthest->ended() && attached_.watermark == total_steps_;
  }
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
  if (at_end_ || situation.watermark >= total_steps_) return false;  // See MayEnd.
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
  const bool looks = phase_ == Phase::kUnknown || phase_ == Phase::kLooking;
  const uint64_t every = CheckpointEverySteps(options_.spec);
  if (!exact_ || !looks || every == 0 || barrier % every != 0) return false;
  return barrier < total_steps_ &&
         (call_ == nullptr || clock_->Now() - call_since_ < kLookPatience);
}

bool Checkpointer::IsDueAt(uint64_t barrier) const {
  return phase_ == Phase::kAwaitingBarrier && barrier < total_steps_;
}

void Checkpointer::Pinned(uint64_t step, absl::Duration held_up) {
  attempt_->exact_step = step;
  attempt_->at_step = step;
  attempt_->held_up = held_up;
  BeginFiles();
}

void Checkpointer::NotPinned(const absl::Status& why) { Fail(why); }

bool Checkpointer::MayEnd(const absl::optional<CutName>& cut) {
  const absl::Time now = clock_->Now();
  if (!at_end_) {
    at_end_ = true;
    last_is_begun_ = false;
    last_since_ = now;
    last_due_ = now;
    last_cut_ = cut;
    last_backoff_.Reset();
  }
  if (phase_ == Phase::kAwaitingCut || phase_ == Phase::kAwaitingBarrier) PutBack();
  if (last_is_saved_) return true;
  if (phase_ == Phase::kIdle && !std::exchange(last_is_begun_, true)) last_since_ = now;
  if (phase_ == Phase::kIdle && now >= last_due_ && !LastIsHopeless()) BeginLast();
  if (!LastIsHopeless()) return false;
  const bool directory_hangs = call_ != nullptr && now - call_since_ > kLastPatience;
  if (phase_ != Phase::kIdle && !directory_hangs) return false;
  if (directory_hangs) {
    CheckpointEnded ended = attempt_ ? Describe() : CheckpointEnded();
    ended.set_cause(kAtTheEnd);
    ended.set_error(absl::StrCat(options_.spec.checkpoints().directory(), " does not answer"));
    trouble_ = ended.error();
    ended_.push_back(std::move(ended));
  }
  trouble_ = absl::StrCat("the last checkpoint is missing: ",
                          has_lost_directory() ? whose_directory_ : trouble_);
  return true;
}

bool Checkpointer::LastIsHopeless() const {
  return clock_->Now() - last_since_ > kLastPatience || has_lost_directory();
}

absl::Duration Checkpointer::WritePatienceFrom(absl::Duration least) const {
  const absl::Duration slowest = absl::Seconds(static_cast<double>(options_.bytes) / kSlowestDisk);
  return std::max({least, kTimesAsLong * last_took_, slowest});
}

// Training waits for the best one.
absl::Duration Checkpointer::WritePatience() const {
  if (attempt_->is_best) return BestPatience();
  return std::max(WritePatienceFrom(kWritePatience), 2 * in_vain_for_);
}

std::string Checkpointer::WhatIsWritten() const {
  const std::string who = attached_.shards->WhoWrites();
  return absl::StrCat(
      CheckpointPath(options_.spec.checkpoints().directory(), attempt_->files.number),
      " has been written for ", absl::FormatDuration(absl::Trunc(WritingFor(), absl::Seconds(1))),
      who.empty() ? "" : absl::StrCat("; it waits for ", who));
}

void Checkpointer::BeginLast() {
  attempt_.emplace();
  attempt_->cause = kAtTheEnd;
  attempt_->is_last = true;
  attempt_->requests = std::exchange(waiting_, {});
  attempt_->begun = clock_->Now();
  attempt_->at_step = total_steps_;
  attempt_->cut = last_cut_;
  BeginFiles();
}

std::string Checkpointer::WhatTheEndWaitsFor() const {
  return absl::StrCat("its last checkpoint, in ", options_.spec.checkpoints().directory(),
                      trouble_.empty() ? "" : absl::StrCat(" (", trouble_, ")"), ",");
}

void Checkpointer::BeginFiles() {
  const uint64_t of_cut = attempt_->cut ? attempt_->cut->version() * replicas_ : 0;
  policy_.Began(std::max(attempt_->at_step, of_cut), clock_->Now());
  StartFileCall(Phase::kBeginning,
                [files = files_, at_least = last_number_ + 1, shards = attached_.count,
                 is_first = !has_begun_, damaged = attached_.damaged](FileResult* result) {
                  const auto begun = files->Begin(at_least, shards, is_first, damaged);
                  result->status = begun.status();
                  if (begun.ok()) result->begun = *begun;
                });
}

void Checkpointer::AfterBeginning() {
  if (result_->status.ok()) {
    attempt_->files = result_->begun;
    last_number_ = attempt_->files.number;
    has_begun_ = true;
  }
  if (!attempt_->given_up.ok()) return Fail(attempt_->given_up);
  if (!result_->status.ok()) return Fail(result_->status);
  WriteCheckpointRequest request;
  request.set_generation(attached_.generation);
  request.set_directory(options_.spec.checkpoints().directory());
  request.set_checkpoint(attempt_->files.number);
  request.set_base(attempt_->files.base);
  if (attempt_->cut) *request.mutable_cut() = *attempt_->cut;
  if (attempt_->exact_step) request.set_cut_id(attempt_->is_best ? best_->cut_id : kCutId);
  attempt_->writing_since = clock_->Now();
  phase_ = Phase::kWriting;
  attached_.shards->StartWrite(request, options_.wake);
}

bool Checkpointer::TakeAnswers() {
  const auto answers = attached_.shards->TakeWritten();
  if (!answers) {
    if (WritingFor() <= WritePatience()) return false;
    if (!attempt_->is_best) in_vain_for_ = WritingFor();
    const std::string what =
        absl::StrCat(WhatIsWritten(), "; the next one has ",
                     absl::FormatDuration(absl::Trunc(WritePatience(), absl::Seconds(1))));
    attached_.shards->CancelWrite();
    Fail(absl::DeadlineExceededError(what));
    return true;
  }
  if (!answers->ok()) {
    Fail(answers->status());
    return true;
  }
  Commit(**answers);
  return true;
}

void Checkpointer::Commit(const std::vector<WriteCheckpointResponse>& answers) {
  absl::optional<uint64_t> exact_step = attempt_->exact_step;
  if (attempt_->is_last) exact_step = total_steps_;
  const auto state = MergeAnswers(answers, attempt_->cut, exact_step);
  if (!state.ok()) return Fail(state.status());
  Unpin();
  attempt_->state = *state;
  std::vector<std::string> servers;
  for (uint32_t i = 0; i < answers.size(); ++i) servers.push_back(attached_.shards->ServerOf(i));
  attempt_->state.extra_memory = MostExtraMemory(answers, servers);
  const absl::Time now = clock_->Now();
  CheckpointManifest manifest;
  manifest.set_step(state->step);
  options_.describe_job(&manifest);
  manifest.set_number(attempt_->files.number);
  *manifest.mutable_written() = ToTimestamp(now);
  manifest.set_job_id(options_.owner.job_id);
  *manifest.mutable_spec() = options_.spec;
  manifest.set_total_steps(total_steps_);
  manifest.set_exact(state->exact);
  manifest.set_ended(attempt_->is_last);
  for (const std::string& slot : OptimizerSlots(options_.spec.optimizer())) {
    manifest.add_slots(slot);
  }
  for (const WriteCheckpointResponse& answer : answers) *manifest.add_shards() = answer.shard();
  *manifest.mutable_took() = ToProto(now - attempt_->begun);
  // Until the job knows of the new best one, the one before is its best.
  std::set<uint64_t> kept = {manifest.best().checkpoint().number()};
  if (attempt_->is_best) {
    kept.insert(manifest.number());
    // A later state stays until one is saved again (AfterCommitting).
    if (newest_ && newest_->step() > manifest.step()) kept.insert(newest_->number());
    *manifest.mutable_best() = best_->evaluation;
    *manifest.mutable_best()->mutable_checkpoint() =
        InfoOf(options_.spec.checkpoints().directory(), manifest);
  }
  StartFileCall(Phase::kCommitting,
                [files = files_, manifest, kept, damaged = attached_.damaged](FileResult* result) {
                  result->manifest = manifest;
                  const auto committed = files->Commit(&result->manifest, damaged, kept);
                  result->status = committed.status();
                  if (committed.ok()) result->trouble = *committed;
                });
}

void Checkpointer::AfterCommitting() {
  if (!result_->status.ok()) return Fail(result_->status);
  // Where a later state than that of the evaluation was saved already, one is saved again at once:
  // its checkpoint, what a lost server is made again from, is only sure to stay until the next.
  const bool is_behind = newest_ && newest_->step() > result_->manifest.step();
  if (attempt_->is_best && is_behind) policy_.SetDue(clock_->Now());
  newest_ = InfoOf(options_.spec.checkpoints().directory(), result_->manifest);
  newest_is_exact_ = attempt_->state.exact;
  last_took_ = FromProto(result_->manifest.took());
  in_vain_for_ = absl::ZeroDuration();
  last_is_saved_ = attempt_->is_last;
  trouble_ = result_->trouble;
  CheckpointEnded ended = Describe();
  ended.set_step(attempt_->state.step);
  ended.set_exact(attempt_->state.exact);
  ended.set_bytes(attempt_->state.bytes);
  ended.set_bytes_written(attempt_->state.bytes_written);
  ended.set_extra_memory(attempt_->state.extra_memory);
  ended_.push_back(std::move(ended));
  Answer(std::exchange(attempt_->requests, {}), *newest_);
  if (attempt_->is_best) EndBest(*newest_);
  End();
}

CheckpointEnded Checkpointer::Describe() const {
  CheckpointEnded ended;
  const uint64_t number = attempt_->files.number;
  ended.set_number(number);
  ended.set_cause(attempt_->cause);
  ended.set_step(attempt_->at_step);
  *ended.mutable_took() = ToProto(clock_->Now() - attempt_->begun);
  *ended.mutable_held_up() = ToProto(attempt_->held_up);
  const std::string& directory = options_.spec.checkpoints().directory();
  ended.set_path(number == 0 ? directory : CheckpointPath(directory, number));
  return ended;
}

void Checkpointer::Fail(const absl::Status& status) {
  const absl::Time now = clock_->Now();
  LOG(INFO) << options_.owner.job_id << ": a checkpoint was given up: " << status;
  ended_.push_back(Describe());
  ended_.back().set_error(std::string(status.message()));
  trouble_ = absl::StrCat("a checkpoint was given up: ", std::string(status.message()));
  policy_.Failed(now);
  if (attempt_->is_last) {
    last_due_ = IsAnotherRuns(status) ? absl::InfiniteFuture() : now + last_backoff_.Next();
    whose_directory_ = WhoseItIs(status);
  }
  if (attempt_->is_best) BestHasFailed(status);
  Unpin();
  Answer(
      std::exchange(attempt_->requests, {}),
      absl::Status(IsAnotherRuns(status) ? absl::StatusCode::kFailedPrecondition
                                         : absl::StatusCode::kUnavailable,
                   absl::StrCat("the checkpoint was given up: ", std::string(status.message()))));
  const uint64_t number = attempt_->files.number;
  End();
  if (number == 0) return;
  StartFileCall(Phase::kRemoving, [files = files_, number](FileResult* result) {
    result->status = files->GiveUp(number);
  });
}

void Checkpointer::Unpin() {
  if (!attempt_->exact_step || attempt_->is_best || attached_.shards == nullptr) return;
  const absl::Status status = attached_.shards->UnpinCut(attached_.generation, kCutId);
  LOG_IF(WARNING, !status.ok()) << options_.owner.job_id << ": " << status;
  attempt_->exact_step.reset();
}

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
