// The states of a shard that pulls keep while they are sent.
#ifndef MILLRACE_PS_SHARD_HELD_STATES_H_
#define MILLRACE_PS_SHARD_HELD_STATES_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_state.h"
#include "ps/shard/pull_groups.h"

namespace millrace::ps {

// A pull's reference to the state that it sends. The shard may take the state back where memory is
// short: a client that reads slowly keeps one that everybody else has left behind. Thread-safe.
class StateHold {
 public:
  explicit StateHold(StatePtr state) : state_(std::move(state)) {}

  // nullptr: it was taken back.
  StatePtr Get() const {
    MutexLock lock(&mutex_);
    return state_;
  }

  // Returns it, for the caller to release without locks.
  StatePtr TakeBack() {
    MutexLock lock(&mutex_);
    return std::exchange(state_, nullptr);
  }

 private:
  mutable Mutex mutex_;
  StatePtr state_ ABSL_GUARDED_BY(mutex_);
};

// Knows all holds of a shard, and the groups that its pulls form. Not thread-safe.
class HeldStates {
 public:
  std::shared_ptr<StateHold> Hold(StatePtr state);

  // See PullGroups.
  absl::StatusOr<StatePtr> FindGroup(const PullRequest& request, const StatePtr& newest,
                                     absl::Time now) {
    return groups_.Find(request, newest, now);
  }
  void EndGroups(absl::Time since, std::vector<StatePtr>* released) {
    groups_.End(since, released);
  }

  // How many of the states are none that `is_kept` by the shard itself.
  using IsKept = std::function<bool(const ShardState*)>;
  size_t CountOld(const IsKept& is_kept);

  // Takes such a state back, one that was held the longest, and ends all groups. Returns what they
  // kept.
  std::vector<StatePtr> TakeBackOldest(const IsKept& is_kept);

 private:
  std::vector<const ShardState*> Old(const IsKept& is_kept);

  PullGroups groups_;
  std::deque<std::weak_ptr<StateHold>> holds_;  // The oldest first.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_HELD_STATES_H_
