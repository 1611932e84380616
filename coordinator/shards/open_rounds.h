// The rounds of calls of one job that somebody waits for, for whoever wants to cancel them.
#ifndef MILLRACE_COORDINATOR_SHARDS_OPEN_ROUNDS_H_
#define MILLRACE_COORDINATOR_SHARDS_OPEN_ROUNDS_H_

#include <memory>
#include <vector>

#include "common/mutex.h"
#include "coordinator/shards/call_round.h"

namespace millrace::coordinator {

// Whoever began a round owns it, and waits for its calls before it goes. Thread-safe; nothing
// blocks.
class OpenRounds {
 public:
  // Before the first call of `round`. Returns false, and forgets it, between Cancel and Resume:
  // then none of its calls should be begun.
  bool Add(const std::shared_ptr<CallRound>& round) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (cancelled_) return false;
    std::erase_if(rounds_, [](const auto& other) { return other.expired(); });
    rounds_.push_back(round);
    return true;
  }

  // Ends all calls of these rounds, soon.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::weak_ptr<CallRound>> rounds;
    {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      rounds = rounds_;
    }
    for (const auto& each : rounds) {
      if (const std::shared_ptr<CallRound> round = each.lock()) round->Cancel();
    }
  }

  // From here on calls can be made again.
  void Resume() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    cancelled_ = false;
  }

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<CallRound>> rounds_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_OPEN_ROUNDS_H_
