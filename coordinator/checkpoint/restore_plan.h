// How the shards of a restored job may lie.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_RESTORE_PLAN_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_RESTORE_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/checkpoint.pb.h"

namespace millrace::coordinator {

// Where shards of the checkpoint meet that have applied different steps, in elements of all
// variables one after the other: a new shard must not lie across one. Empty for an exact one.
// DATA_LOSS: the shards are not the variables' elements, each once, in order. REQUIRES: `records`
// are the manifest's, one for each shard.
absl::StatusOr<std::vector<uint64_t>> FindBoundaries(const CheckpointManifest& manifest,
                                                     absl::Span<const ShardRecord> records);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_RESTORE_PLAN_H_
