// What a job's shards say of themselves, taken together.
#ifndef MILLRACE_COORDINATOR_SHARDS_MERGE_PROGRESS_H_
#define MILLRACE_COORDINATOR_SHARDS_MERGE_PROGRESS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/applied_set.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

struct MergedProgress {
  AppliedSet done;        // Steps that every shard has applied or holds.
  uint64_t frontier = 0;  // No shard has a step from here on.
  uint32_t furthest = 0;  // A shard that has the step before that, if there is one.
};

// INTERNAL: what a shard says makes no sense. REQUIRES: shards is not empty.
absl::StatusOr<MergedProgress> MergeProgress(absl::Span<const ShardStatus> shards);

// The newest version that any of them has; 0 where there are none.
uint64_t NewestVersion(absl::Span<const ShardStatus> shards);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_MERGE_PROGRESS_H_
