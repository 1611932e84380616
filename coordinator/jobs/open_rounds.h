// The rounds of calls of one job that may not have ended, for whoever wants to cancel them.
#ifndef MILLRACE_COORDINATOR_JOBS_OPEN_ROUNDS_H_
#define MILLRACE_COORDINATOR_JOBS_OPEN_ROUNDS_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "coordinator/jobs/call_round.h"

namespace millrace::coordinator {

// Thread-safe; nothing blocks.
class OpenRounds {
 public:
  // Before the first call of `round`. Returns false, and forgets it, between Cancel and Resume:
  // then none of its calls should be begun.
  bool Add(std::shared_ptr<CallRound> round) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (cancelled_) return false;
    std::erase_if(rounds_, [](const auto& other) { return other->HasEnded(); });
    rounds_.push_back(std::move(round));
    return true;
  }

  // Ends all calls of these rounds, soon.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::shared_ptr<CallRound>> rounds;
    {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      rounds = rounds_;
    }
    for (const auto& round : rounds) round->Cancel();
  }

  // From here on calls can be made again.
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    cancelled_ = false;
  }

 private:
  Mutex mutex_;  // Before those of the rounds.
  std::vector<std::shared_ptr<CallRound>> rounds_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_OPEN_ROUNDS_H_
