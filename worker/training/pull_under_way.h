// The pull of the work that is being computed, for those who call it off.
#ifndef MILLRACE_WORKER_TRAINING_PULL_UNDER_WAY_H_
#define MILLRACE_WORKER_TRAINING_PULL_UNDER_WAY_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::worker {

// Work whose pull was called off is not done: it comes again, or nobody wants it any more. Nothing
// here blocks. Not thread-safe.
class PullUnderWay {
 public:
  // Other work is next, which nobody has called off.
  void Forget() { called_off_ = false; }

  // `pull` is under way until End. Null: there is nothing to pull, and so nothing to call off.
  // `step`: what it is for; none: an evaluation.
  void Begin(ParameterClient::StartedPull* pull, absl::optional<uint64_t> step) {
    pull_ = pull;
    step_ = step;
  }
  void End() { Begin(nullptr, absl::nullopt); }

  // Ends the pull that is under way, soon; where none is, does nothing.
  void CallOff() {
    if (pull_ == nullptr) return;
    called_off_ = true;
    pull_->Cancel();
  }
  // The work is not wanted now; its pull has not begun.
  void CallOffBefore() { called_off_ = true; }

  // Since Forget.
  bool called_off() const { return called_off_; }
  // Which step is pulled for; none: an evaluation, or nothing is under way.
  absl::optional<uint64_t> step() const { return step_; }

 private:
  ParameterClient::StartedPull* pull_ = nullptr;
  absl::optional<uint64_t> step_;
  bool called_off_ = false;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PULL_UNDER_WAY_H_
