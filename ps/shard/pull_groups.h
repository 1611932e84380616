// Pulls in several parts that are of one state.
#ifndef MILLRACE_PS_SHARD_PULL_GROUPS_H_
#define MILLRACE_PS_SHARD_PULL_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_state.h"

namespace millrace::ps {

// Keeps the state of a group from its first part until all were asked for. The numbers of groups
// that are over are remembered, for as long as a few thousand later ones: a part that comes late,
// or once more, must not begin the group anew with another state. Not thread-safe.
class PullGroups {
 public:
  // The state of the group that `request` belongs to; `newest`, where it is the first of it.
  // ABORTED: the group is over. INVALID_ARGUMENT: the number of parts is another one than before.
  // REQUIRES: request.pull_group() != 0 and request.part() < request.parts().
  absl::StatusOr<StatePtr> Find(const PullRequest& request, const StatePtr& newest, absl::Time now);

  // Ends the groups that began before `since`; all of them. What they kept is moved to `released`.
  void End(absl::Time since, std::vector<StatePtr>* released);
  void EndAll(std::vector<StatePtr>* released) { End(absl::InfiniteFuture(), released); }

  // What is kept now.
  std::vector<StatePtr> States() const;
  bool empty() const { return groups_.empty(); }

 private:
  struct Group {
    StatePtr state;
    uint32_t parts = 0;
    absl::flat_hash_set<uint32_t> asked;
    absl::Time begun;
  };

  void Remember(uint64_t number);

  absl::flat_hash_map<uint64_t, Group> groups_;
  absl::flat_hash_set<uint64_t> over_;
  std::deque<uint64_t> over_order_;  // The oldest first.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_PULL_GROUPS_H_
