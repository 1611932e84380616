// What a shard is between two step applications.
#ifndef MILLRACE_PS_DENSE_SHARD_STATE_H_
#define MILLRACE_PS_DENSE_SHARD_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "ps/block/block.h"

namespace millrace::ps {

// Never changes once it is shared. A pull, a pinned cut and a flush each hold one for as long as
// they need it, and stop nobody.
struct ShardState {
  // In the order of BlockLayout::blocks().
  std::vector<std::shared_ptr<const Block>> blocks;
  // The steps whose gradients are in the blocks.
  AppliedSet applied;
  // How many optimizer updates that took.
  uint64_t version = 0;
  // The norm that the last of them was told (see ParameterServerAdmin.ApplyVersion), where there
  // was one and it is known: shards that are a version behind are told the same.
  absl::optional<double> gradient_norm;
};

using StatePtr = std::shared_ptr<const ShardState>;

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_SHARD_STATE_H_
