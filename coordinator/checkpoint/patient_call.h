// File work that may hang, as on a network's disk, without hanging who waits for it.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/checkpoint/background_call.h"

namespace millrace::coordinator {

// Thread-safe.
class PatientCaller {
 public:
  // As long as so many calls are under way that nobody waits for any more, no further one is made:
  // for the same `what`, and for any.
  static constexpr int kMostLeft = 4;
  static constexpr int kMostLeftInAll = 64;

  explicit PatientCaller(absl::Duration patience = absl::Seconds(30),
                         ThreadStarter start_thread = StartThread)
      : patience_(patience), start_thread_(std::move(start_thread)) {}

  // What `call` returns, which runs on a thread of its own and must own all that it uses.
  // UNAVAILABLE: it takes longer than the patience (it goes on; `what` names what it works on), or
  // too many such are under way, or there is no thread for it; CANCELLED: `cancelled` returned
  // true, which is asked once a second.
  template <typename T>
  absl::StatusOr<T> Call(const std::string& what, std::function<absl::StatusOr<T>()> call,
                         const std::function<bool()>& cancelled) const {
    if (left_->AreTooMany(what)) {
      return absl::UnavailableError(absl::StrCat(what, ": earlier reads of files hang"));
    }
    auto answer = std::make_shared<absl::StatusOr<T>>();
    auto state = std::make_shared<State>();
    const BackgroundCall background(
        [answer, state, call = std::move(call), what, left = left_] {
          *answer = call();
          left->End(what, *state);
        },
        /*on_end=*/nullptr, start_thread_);
    if (!background.status().ok()) {
      return absl::UnavailableError(
          absl::StrCat(what, ": ", std::string(background.status().message())));
    }
    const absl::Time deadline = Clock::Real()->Now() + patience_;
    for (;;) {
      const absl::Duration left = deadline - Clock::Real()->Now();
      if (background.AwaitFor(std::min(left, absl::Seconds(1)))) return *std::move(answer);
      const bool is_cancelled = cancelled();
      if (!is_cancelled && left > absl::ZeroDuration()) continue;
      left_->Leave(what, *state);
      if (is_cancelled) return absl::CancelledError("cancelled");
      return absl::UnavailableError(
          absl::StrCat(what, ": no answer from the disk within ", absl::FormatDuration(patience_)));
    }
  }

 private:
  enum class State { kAwaited, kLeft, kEnded };

  // Counts the calls that nobody waits for any more. Outlives the caller, for them.
  class LeftCalls {
   public:
    bool AreTooMany(const std::string& what) const ABSL_LOCKS_EXCLUDED(mutex_) {
      MutexLock lock(&mutex_);
      const auto found = left_.find(what);
      return all_ >= kMostLeftInAll || (found != left_.end() && found->second >= kMostLeft);
    }
    void Leave(const std::string& what, State& state) ABSL_LOCKS_EXCLUDED(mutex_) {
      MutexLock lock(&mutex_);
      if (state == State::kEnded) return;
      state = State::kLeft;
      ++left_[what];
      ++all_;
    }
    void End(const std::string& what, State& state) ABSL_LOCKS_EXCLUDED(mutex_) {
      MutexLock lock(&mutex_);
      if (std::exchange(state, State::kEnded) != State::kLeft) return;
      if (--left_[what] == 0) left_.erase(what);
      --all_;
    }

   private:
    mutable Mutex mutex_;
    std::map<std::string, int> left_ ABSL_GUARDED_BY(mutex_);  // By what they work on.
    int all_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  const absl::Duration patience_;
  const ThreadStarter start_thread_;
  const std::shared_ptr<LeftCalls> left_ = std::make_shared<LeftCalls>();
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_
