// The checkpoint of a job's last state, which all shards have in their databases. It is tried again
// for a while, since nothing comes after it; then the job ends without, and says so. Whoever looks
// into a directory that another run has taken finds no state of this job there, however long it is
// tried.
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpointer.h"

namespace millrace::coordinator {
namespace {

// How long the job's end tries to have a checkpoint.
constexpr absl::Duration kLastPatience = absl::Minutes(1);

constexpr char kAtTheEnd[] = "the job's end";

}  // namespace

bool Checkpointer::MayEnd(const absl::optional<CutName>& cut) {
  const absl::Time now = clock_->Now();
  if (!at_end_) {
    at_end_ = true;
    last_is_begun_ = false;
    last_since_ = now;
    last_due_ = now;
    last_cut_ = cut;
    whose_directory_.clear();
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
  return clock_->Now() - last_since_ > kLastPatience || last_due_ == absl::InfiniteFuture();
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

}  // namespace millrace::coordinator
