// What a shard begins with that starts from files: a checkpoint, or tensors of a file.
#ifndef MILLRACE_PS_CHECKPOINT_FIRST_STATE_H_
#define MILLRACE_PS_CHECKPOINT_FIRST_STATE_H_

#include "absl/status/statusor.h"
#include "common/storage/durable_file.h"
#include "ps/block/block.h"
#include "ps/checkpoint/bandwidth.h"
#include "ps/dense/shard_contents.h"
#include "ps/dense/shard_plan.h"

namespace millrace::ps {

// Blocks while it reads. Statuses as for ShardSpec.restore, and also: INVALID_ARGUMENT: what is
// there does not fit the spec; RESOURCE_EXHAUSTED: `pool` has no memory for it; those of
// `may_go_on`. REQUIRES: StartsFromFiles(plan.spec).
absl::StatusOr<ShardContents> ReadFirstState(const FileSystemPtr& file_system,
                                             const ShardPlan& plan, BlockPool* pool,
                                             const MayGoOn& may_go_on);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CHECKPOINT_FIRST_STATE_H_
