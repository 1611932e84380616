// A shard whose job has ended. Its state is final and in the database, so its memory can go: what
// is left then is a state without blocks, which says version and applied set as before. A pull that
// finds it waits, as for a version that is to come, and has the blocks read; once they are there
// the shard keeps them, until somebody needs the memory again.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_internal.h"

namespace millrace::ps {

absl::Status Shard::Ended() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the job of ", name_, " has ended: no step of it is applied any more"));
}

absl::Status Shard::Retire(uint64_t generation) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(CheckGeneration(generation));
    if (retired_) return absl::OkStatus();
    retired_ = true;
    more_acknowledged_ = false;  // Nobody asks for what it lacks any more.
    DropPushes(Ended(), &effects);
    GiveUp(Ended(), &effects);
    WakeAll(Ended(), &effects);
    DropPins(&effects);
    effects.released.push_back(cut_plan_.Forget());
    effects.released.push_back(std::exchange(previous_, nullptr));
    ReplaceRule(&effects);
    WriteRoot();
  }
  successors_.Stop();
  Run(std::move(effects));
  return absl::OkStatus();
}

bool Shard::retired() const {
  MutexLock lock(&mutex_);
  return retired_;
}

uint64_t Shard::GivableBytes() const {
  MutexLock lock(&mutex_);
  return retired_ && stored_.retired && HasValues() ? state_bytes_ : 0;
}

bool Shard::GiveUpValues() {
  auto rest = std::make_shared<ShardState>();
  StatePtr released;
  MutexLock lock(&mutex_);
  if (!retired_ || !stored_.retired || !HasValues()) return false;
  root_.reset();  // It leads to the blocks.
  rest->applied = state_->applied;
  rest->version = state_->version;
  released = std::exchange(state_, std::move(rest));
  return true;
}

void Shard::Restore(absl::StatusOr<StatePtr> state) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    reading_ = false;
    if (state.ok() && (*state)->version != state_->version) {
      state = absl::DataLossError(absl::StrCat("the newest cut of ", name_, " is of version ",
                                               (*state)->version, "; it retired at version ",
                                               state_->version));
    }
    if (state.ok()) {
      state_ = *std::move(state);
      CompleteWaits(&effects);
    } else {
      WakeAll(state.status(), &effects);
    }
  }
  Run(std::move(effects));
}

absl::StatusOr<StatePtr> Shard::FindRetired(const PullRequest& request) const {
  if (!request.has_version() || request.version() == state_->version) return state_;
  return absl::AbortedError(absl::StrCat("version ", request.version(), " of ", name_,
                                         " is not there: its job ended at version ",
                                         state_->version));
}

}  // namespace millrace::ps
