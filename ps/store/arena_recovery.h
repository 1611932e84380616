// What a server's shards find in the memory that a killed process left.
#ifndef MILLRACE_PS_STORE_ARENA_RECOVERY_H_
#define MILLRACE_PS_STORE_ARENA_RECOVERY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "ps/block/arena.h"
#include "ps/block/block.h"
#include "ps/dense/arena_root.h"
#include "ps/dense/shard_plan.h"

namespace millrace::ps {

// Whether what is written below `directory` stays in memory; false where that cannot be told.
bool IsMemoryFileSystem(const std::string& directory);

// The arena that blocks are in from now on, with a warning in the log where it is not in memory.
// nullptr: none was asked for (no `parent`), or it cannot be had; then the log says why, and what
// an earlier process left is not used any more. An error is the data directory's.
absl::StatusOr<std::shared_ptr<Arena>> OpenArena(const ArenaOptions& options);

// What the database says of a shard.
struct StoredPlace {
  uint64_t generation = 0;
  uint64_t epoch = 0;
  uint64_t newest_cut = 0;  // Its version.
};

// What the shard's root leads to, if that continues what is stored. nullopt: it does not, or there
// is none (or no arena); the log says what is wrong with it.
absl::optional<RecoveredRoot> RecoverShard(const std::shared_ptr<Arena>& arena,
                                           const ShardPlan& plan, const StoredPlace& stored,
                                           BlockPool* pool);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_ARENA_RECOVERY_H_
