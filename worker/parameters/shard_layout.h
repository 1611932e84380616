// Where the elements of a job's variables are, checked.
#ifndef MILLRACE_WORKER_PARAMETERS_SHARD_LAYOUT_H_
#define MILLRACE_WORKER_PARAMETERS_SHARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/job.pb.h"

namespace millrace::worker {

struct ShardLayout {
  uint32_t shard = 0;
  std::string server;
  std::string address;
  std::vector<Slice> slices;
  uint64_t elements = 0;  // Of all slices,
  uint64_t pushed = 0;    // and of those whose variables are not frozen.

  // "ps-0 (127.0.0.1:7070), shard 3", for messages.
  std::string Describe() const;
};

// A slice of a variable: slices[slice] of shards[shard].
struct SliceLocation {
  size_t shard = 0;
  size_t slice = 0;
};

// A value type.
struct Layout {
  uint64_t generation = 0;
  std::vector<ShardLayout> shards;
  // For each variable its slices, in the order of their offsets.
  std::vector<std::vector<SliceLocation>> variables;

  // Elements of the variable.
  uint64_t SizeOf(size_t variable) const;
};

// `variable_sizes`: elements of each variable; `frozen`: whether it is, and empty where none is.
// INVALID_ARGUMENT: the routing does not cover each
// element exactly once, or a shard is given twice, is empty or has no address; the message names
// the field by its path.
absl::StatusOr<Layout> MakeLayout(absl::Span<const uint64_t> variable_sizes, const Routing& routing,
                                  const std::vector<bool>& frozen = {});

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_SHARD_LAYOUT_H_
