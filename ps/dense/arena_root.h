// Roots in an arena: what a killed server's shards were, for its successor.
#ifndef MILLRACE_PS_DENSE_ARENA_ROOT_H_
#define MILLRACE_PS_DENSE_ARENA_ROOT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "ps/block/arena.h"
#include "ps/block/block.h"
#include "ps/dense/shard_plan.h"
#include "ps/dense/shard_root.h"

namespace millrace::ps {

// A new shard's. Until the first Write there is nothing to be found; and nothing when the arena has
// no room for the root, or not for all blocks of what was written last.
std::unique_ptr<ShardRoot> MakeArenaRoot(std::shared_ptr<Arena> arena, const ShardPlan& plan);

struct RecoveredRoot {
  RootContents contents;
  // The same root, for the shard that is made of it. Destroying it forgets the shard.
  std::unique_ptr<ShardRoot> root;
};

// What a process before this one wrote last for a shard with the same spec; no block of it is read
// or copied. nullopt: nothing. DATA_LOSS: it makes no sense; the message says why. `pool` is the
// arena's. REQUIRES: Arena::EndRecovery has not been called.
absl::StatusOr<absl::optional<RecoveredRoot>> RecoverArenaRoot(std::shared_ptr<Arena> arena,
                                                               const ShardPlan& plan,
                                                               BlockPool* pool);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_ARENA_ROOT_H_
