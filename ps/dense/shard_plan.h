// A shard's spec, checked, and what follows from it.
#ifndef MILLRACE_PS_DENSE_SHARD_PLAN_H_
#define MILLRACE_PS_DENSE_SHARD_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/parameter_server.pb.h"
#include "ps/block/block.h"
#include "ps/dense/block_layout.h"
#include "ps/dense/shard_state.h"
#include "ps/dense/staged_update.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

inline constexpr size_t kMaxJobIdBytes = 200;  // Of ShardSpec.job_id.

struct ShardPlan {
  ShardSpec spec;
  BlockLayout layout;
  std::unique_ptr<Optimizer> optimizer;
  SliceRules rules;  // By slice; nullptr also of one that is frozen.
  absl::Duration cut_period;
};

// INVALID_ARGUMENT: what is wrong with the spec, by the field's path.
absl::StatusOr<ShardPlan> PlanShard(const ShardSpec& spec);

// Whether the shard's first state is read from files, which may go away: then version 0, or
// whatever it begins at, is a cut like others, and nothing is there without one.
bool StartsFromFiles(const ShardSpec& spec);

// Whether the shard's versions wait until they are told the norm of their gradient over all shards.
bool AwaitsNorms(const ShardSpec& spec);

// Bytes of one state: values and slots.
uint64_t StateBytes(const ShardPlan& plan);

// Bytes of those, in frozen slices: later states have the same blocks.
uint64_t FrozenBytes(const ShardPlan& plan);

// Bytes of gradients under way that a shard has a right to: a few; in synchronous mode the
// contributions of a version, held or not.
uint64_t ReceiveBytes(const ShardPlan& plan);

// All that a shard may take while it trains: its state, the state that an update writes beside it,
// those that a cut and an evaluation keep, in synchronous mode the version before, the sum of
// contributions or, of variables that are updated as a whole, a gradient, and gradients under way.
// States share what is frozen, but for one that is read when the shard steps back. UINT64_MAX: more
// than can be counted.
uint64_t MemoryNeed(const ShardPlan& plan);

// What a block's slots are before the first update.
void FillInitialSlots(const Optimizer& optimizer, Block* block);

// Blocks for a state of the shard, in the order of its layout, with undefined contents.
// RESOURCE_EXHAUSTED: the system gives no more memory.
absl::StatusOr<std::vector<std::shared_ptr<Block>>> AllocateBlocks(const ShardPlan& plan,
                                                                   BlockPool* pool);

// Version 0: initial values and slots, no step applied. Values that are stored in files are 0.
// Computes for a while: tens of nanoseconds an element. RESOURCE_EXHAUSTED: the system gives no
// more memory.
absl::StatusOr<StatePtr> MakeInitialState(const ShardPlan& plan, BlockPool* pool);

// "shard 3 of job 'j1'", for messages.
std::string ShardName(absl::string_view job_id, uint32_t shard);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_SHARD_PLAN_H_
