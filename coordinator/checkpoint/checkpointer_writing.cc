// A checkpoint from the moment that its state is there to its manifest, or to its being given up:
// the folder is made, all shards write, and the manifest names what they have written.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "coordinator/checkpoint/checkpointer.h"
#include "glog/logging.h"

namespace millrace::coordinator {

// Training waits for the best one.
absl::Duration Checkpointer::Patience() const {
  return attempt_->is_best ? BestPatience() : write_patience_.Usual();
}

std::string Checkpointer::WhatIsWritten() const {
  const std::string who = attached_.shards->WhoWrites();
  return absl::StrCat(
      CheckpointPath(options_.spec.checkpoints().directory(), attempt_->files.number),
      " has been written for ", absl::FormatDuration(absl::Trunc(WritingFor(), absl::Seconds(1))),
      who.empty() ? "" : absl::StrCat("; it waits for ", who));
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
  if (attempt_->exact_step) request.set_cut_id(attempt_->is_best ? best_.cut_id() : cut_id());
  attempt_->writing_since = clock_->Now();
  phase_ = Phase::kWriting;
  attached_.shards->StartWrite(request, options_.wake);
}

bool Checkpointer::TakeAnswers() {
  const auto answers = attached_.shards->TakeWritten();
  if (!answers) {
    if (WritingFor() <= Patience()) return false;
    if (!attempt_->is_best) write_patience_.GaveUp(WritingFor());
    const std::string what =
        absl::StrCat(WhatIsWritten(), "; the next one has ",
                     absl::FormatDuration(absl::Trunc(Patience(), absl::Seconds(1))));
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
    attempt_->leaves_later = newest_ && newest_->step() > manifest.step();
    if (attempt_->leaves_later) kept.insert(newest_->number());
    attempt_->as_best = InfoOf(options_.spec.checkpoints().directory(), manifest);
    *manifest.mutable_best() = best_.evaluation();
    *manifest.mutable_best()->mutable_checkpoint() = attempt_->as_best;
    attempt_->decision = std::make_shared<CommitDecision>();
  }
  const CheckpointFiles::CommitOptions options = {
      .damaged = attached_.damaged,
      .kept = kept,
      .before = newest_ ? newest_->number() : 0,
      .decision = attempt_->decision.get(),
  };
  StartFileCall(Phase::kCommitting, [files = files_, manifest, options,
                                     decision = attempt_->decision](FileResult* result) {
    result->manifest = manifest;
    const auto committed = files->Commit(&result->manifest, options);
    result->status = committed.status();
    if (committed.ok()) result->trouble = *committed;
  });
}

void Checkpointer::AfterCommitting() {
  if (!attempt_->given_up.ok()) return Fail(attempt_->given_up);
  if (!result_->status.ok()) return Fail(result_->status);
  // Where a later state than that of the evaluation was saved already, one is saved again at once:
  // its checkpoint, what a lost server is made again from, is only sure to stay until the next.
  if (attempt_->leaves_later) policy_.SetDue(clock_->Now());
  newest_ = InfoOf(options_.spec.checkpoints().directory(), result_->manifest);
  newest_is_exact_ = attempt_->state.exact;
  write_patience_.Wrote(FromProto(result_->manifest.took()));
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
  if (attempt_->is_best) best_.End(*newest_, clock_->Now());
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
  LOG(INFO) << options_.owner.job_id
            << ": a checkpoint was given up: " << OneLine(status.ToString());
  ended_.push_back(Describe());
  ended_.back().set_error(std::string(status.message()));
  trouble_ = absl::StrCat("a checkpoint was given up: ", std::string(status.message()));
  policy_.Failed(now);
  if (attempt_->is_last) last_.Failed(status, now);
  if (attempt_->is_best) best_.Failed(status, now);
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
  const absl::Status status = attached_.shards->UnpinCut(attached_.generation, cut_id());
  LOG_IF(WARNING, !status.ok() && !absl::IsCancelled(status))
      << options_.owner.job_id << ": " << status;
  attempt_->exact_step.reset();
}

}  // namespace millrace::coordinator
