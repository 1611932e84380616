// The checkpoint of the best evaluation: of the state that was evaluated, which all shards have
// pinned under the evaluation's name. It is taken before the evaluation counts, so there is none
// that counts as the best and is not kept; and it goes before other checkpoints, since training
// waits for it at the next evaluation. How often it is tried is BestTries' to say. What is given up
// while the directory hangs, or because the generation ends, is no checkpoint when the directory
// answers again, also where its manifest was about to be there: it names that evaluation as the
// best one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpointer.h"

namespace millrace::coordinator {
// It has as long as that may take with all shards writing; a checkpoint of another state that is
// under way before it has as long.
absl::Duration Checkpointer::BestPatience() const {
  return write_patience_.AtLeast(BestTries::kPatience);
}

void Checkpointer::SaveBest(const BestEvaluation& best, const std::string& cut_id) {
  best_.Begin(best, cut_id, clock_->Now());
}

// Of one that waits for the state that it is to save.
bool Checkpointer::GiveWayToBest() {
  if (best_.IsDue(clock_->Now())) PutBack();
  return phase_ == Phase::kIdle;
}

bool Checkpointer::BeginBest() {
  if (!best_.IsDue(clock_->Now())) return false;
  attempt_.emplace();
  attempt_->cause = absl::StrCat("the best ", best_.evaluation().metric(), " so far");
  attempt_->is_best = true;
  attempt_->begun = clock_->Now();
  attempt_->at_step = best_.evaluation().step();
  attempt_->exact_step = best_.evaluation().step();
  BeginFiles();
  return true;
}

// Whether it is to end without what it waits for.
absl::Status Checkpointer::WhyNotBest() const {
  const absl::Time now = clock_->Now();
  if (call_ != nullptr && now - call_since_ > BestTries::kPatience) {
    return absl::UnavailableError(
        absl::StrCat(options_.spec.checkpoints().directory(), " does not answer"));
  }
  const bool waits = phase_ == Phase::kWriting && !attempt_->is_best;
  if (waits && now - best_.since() > BestPatience()) return absl::UnavailableError(WhatIsWritten());
  return absl::OkStatus();
}

// What is under way is another one's then. One whose manifest is there is the best all the same:
// what is still done in the directory need not be waited for.
void Checkpointer::LeaveBest(const absl::Status& why) {
  const absl::Time now = clock_->Now();
  if (!attempt_ || !attempt_->is_best) return best_.End(why, now);
  attempt_->is_best = false;
  attempt_->exact_step.reset();  // The pin is the evaluation's.
  if (attempt_->decision != nullptr && !attempt_->decision->GiveUp()) {
    return best_.End(attempt_->as_best, now);
  }
  attempt_->given_up = why;
  best_.End(why, now);
}

absl::optional<absl::StatusOr<CheckpointInfo>> Checkpointer::TakeBest() {
  if (best_.under_way()) {
    if (const absl::Status why = WhyNotBest(); !why.ok()) LeaveBest(why);
  }
  return best_.TakeResult();
}

}  // namespace millrace::coordinator
