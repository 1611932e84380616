// The checkpoint of a job's last state, which all shards have in their databases. It is tried again
// for a while (LastTries); then the job ends without, and says so. Whoever looks into a directory
// that another run has taken finds no state of this job there, however long it is tried.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpointer.h"

namespace millrace::coordinator {
namespace {

constexpr char kAtTheEnd[] = "the job's end";

}  // namespace

bool Checkpointer::MayEnd(const absl::optional<CutName>& cut) {
  const absl::Time now = clock_->Now();
  if (!last_.begun()) last_.Begin(cut, now);
  if (phase_ == Phase::kAwaitingCut || phase_ == Phase::kAwaitingBarrier) PutBack();
  if (last_is_saved_) return true;
  if (phase_ == Phase::kIdle && last_.IsDue(now)) BeginLast();
  if (!last_.IsHopeless(now)) return false;
  const bool directory_hangs = call_ != nullptr && now - call_since_ > LastTries::kPatience;
  if (phase_ != Phase::kIdle && !directory_hangs) return false;
  if (directory_hangs) {
    CheckpointEnded ended = attempt_ ? Describe() : CheckpointEnded();
    ended.set_cause(kAtTheEnd);
    ended.set_error(absl::StrCat(options_.spec.checkpoints().directory(), " does not answer"));
    trouble_ = ended.error();
    ended_.push_back(std::move(ended));
  }
  trouble_ = absl::StrCat("the last checkpoint is missing: ",
                          has_lost_directory() ? last_.whose_directory() : trouble_);
  return true;
}

void Checkpointer::BeginLast() {
  attempt_.emplace();
  attempt_->cause = kAtTheEnd;
  attempt_->is_last = true;
  attempt_->requests = std::exchange(waiting_, {});
  attempt_->begun = clock_->Now();
  attempt_->at_step = total_steps_;
  attempt_->cut = last_.cut();
  BeginFiles();
}

std::string Checkpointer::WhatTheEndWaitsFor() const {
  return absl::StrCat("its last checkpoint, in ", options_.spec.checkpoints().directory(),
                      trouble_.empty() ? "" : absl::StrCat(" (", trouble_, ")"), ",");
}

}  // namespace millrace::coordinator
