// The checkpoint of the best evaluation: of the state that was evaluated, which all shards have
// pinned under the evaluation's name. It is taken before the evaluation counts, so there is none
// that counts as the best and is not kept; and it goes before other checkpoints, since training
// waits for it at the next evaluation. So a directory that is full or hangs must not cost each
// evaluation that is better as long a wait: after one that could not be saved the next ones are not
// even tried for a while, and then once. One that is another run's is tried no more than once from
// the beginning. What is given up while the directory hangs is no checkpoint when that answers
// again, also where its manifest was about to be there: it names that evaluation as the best one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpointer.h"

namespace millrace::coordinator {
namespace {

// How long it is tried for; and a directory that does not answer for this long is not waited for.
constexpr absl::Duration kBestPatience = absl::Minutes(1);

}  // namespace

// It has as long as that may take with all shards writing; a checkpoint of another state that is
// under way before it has as long.
absl::Duration Checkpointer::BestPatience() const { return write_patience_.AtLeast(kBestPatience); }

void Checkpointer::SaveBest(const BestEvaluation& best, const std::string& cut_id) {
  const absl::Time now = clock_->Now();
  best_.emplace();
  best_->evaluation = best;
  best_->cut_id = cut_id;
  best_->since = best_->due = now;
  if (!best_failure_.ok() && now < best_not_before_) best_->result = best_failure_;
}

// Of one that waits for the state that it is to save.
bool Checkpointer::GiveWayToBest() {
  if (BestIsDue()) PutBack();
  return phase_ == Phase::kIdle;
}

bool Checkpointer::BeginBest() {
  if (!BestIsDue()) return false;
  attempt_.emplace();
  attempt_->cause = absl::StrCat("the best ", best_->evaluation.metric(), " so far");
  attempt_->is_best = true;
  attempt_->begun = clock_->Now();
  attempt_->at_step = best_->evaluation.step();
  attempt_->exact_step = best_->evaluation.step();
  BeginFiles();
  return true;
}

void Checkpointer::BestHasFailed(const absl::Status& status) {
  const absl::Time now = clock_->Now();
  best_->due = now + best_->backoff.Next();
  const bool is_in_vain = IsAnotherRuns(status) || !best_failure_.ok();
  if (is_in_vain || best_->due - best_->since > kBestPatience) EndBest(status);
}

void Checkpointer::EndBest(absl::StatusOr<CheckpointInfo> result) {
  best_failure_ = result.status();
  if (result.ok()) {
    best_pause_.Reset();
  } else {
    best_not_before_ = clock_->Now() + best_pause_.Next();
  }
  best_->result = std::move(result);
}

// Whether it is to end without what it waits for.
absl::Status Checkpointer::WhyNotBest() const {
  const absl::Time now = clock_->Now();
  if (call_ != nullptr && now - call_since_ > kBestPatience) {
    return absl::UnavailableError(
        absl::StrCat(options_.spec.checkpoints().directory(), " does not answer"));
  }
  const bool waits = phase_ == Phase::kWriting && !attempt_->is_best;
  if (waits && now - best_->since > BestPatience()) return absl::UnavailableError(WhatIsWritten());
  return absl::OkStatus();
}

// What is under way is another one's then. One whose manifest is there is the best all the same:
// what is still done in the directory need not be waited for.
void Checkpointer::LeaveBest(const absl::Status& why) {
  if (!attempt_ || !attempt_->is_best) return EndBest(why);
  attempt_->is_best = false;
  attempt_->exact_step.reset();  // The pin is the evaluation's.
  if (attempt_->decision != nullptr && !attempt_->decision->GiveUp()) {
    return EndBest(best_->checkpoint);
  }
  attempt_->given_up = why;
  EndBest(why);
}

absl::optional<absl::StatusOr<CheckpointInfo>> Checkpointer::TakeBest() {
  if (!best_) return absl::nullopt;
  if (const absl::Status why = WhyNotBest(); !best_->result && !why.ok()) LeaveBest(why);
  if (!best_->result) return absl::nullopt;
  auto result = *std::move(best_->result);
  best_.reset();
  return result;
}

}  // namespace millrace::coordinator
