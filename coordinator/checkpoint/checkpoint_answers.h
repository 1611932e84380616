// What a job's shards say, as far as it matters to a checkpoint. Pure functions.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_ANSWERS_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// The oldest cut of this epoch, of `version` or a later one, that all shards have. Nothing: there
// is none. REQUIRES: shards is not empty.
absl::optional<CutName> OldestCommonCut(absl::Span<const ShardStatus> shards, uint64_t epoch,
                                        uint64_t version);

// What a checkpoint is of.
struct CheckpointState {
  uint64_t step = 0;   // Every step below it is in all shards.
  bool exact = false;  // And no other one in any.
  uint64_t bytes = 0;
  uint64_t bytes_written = 0;
  uint64_t extra_memory = 0;  // See MostExtraMemory.
};

// Puts together what the shards have written, in their order. ABORTED: it is not what was asked
// for, and no checkpoint; the message names the shard. Leaves `extra_memory` alone. `cut`: of a
// synchronous job, the one that each must have written. `exact_step`: each must have exactly the
// steps before it.
absl::StatusOr<CheckpointState> MergeAnswers(absl::Span<const WriteCheckpointResponse> answers,
                                             const absl::optional<CutName>& cut,
                                             absl::optional<uint64_t> exact_step);

// The most that a server has used, which writes all of its shards at the same time. `servers`: of
// each shard. REQUIRES: as many as there are answers.
uint64_t MostExtraMemory(absl::Span<const WriteCheckpointResponse> answers,
                         absl::Span<const std::string> servers);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_ANSWERS_H_
