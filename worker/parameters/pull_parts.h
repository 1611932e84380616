// The parts that a shard is pulled in, and what is wanted of each.
#ifndef MILLRACE_WORKER_PARAMETERS_PULL_PARTS_H_
#define MILLRACE_WORKER_PARAMETERS_PULL_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/shard_layout.h"

namespace millrace::worker {

// What a part wants of a slice of which it does not want all.
struct WantedOfSlice {
  uint32_t slice = 0;
  uint64_t width = 0;
  absl::Span<const uint64_t> rows;  // With elements in the slice and in the part's blocks.
  uint64_t elements = 0;            // Of these rows, in the part,
  uint64_t all = 0;                 // and of the slice.
};

// As a PullRequest asks for it.
struct PullPart {
  uint32_t index = 0;
  uint32_t count = 1;               // Parts of the shard.
  uint64_t elements = 0;            // In its blocks,
  uint64_t wanted = 0;              // and what a server that knows rows sends of these.
  std::vector<WantedOfSlice> rows;  // By slice.
};

// A stream for each block's worth of what will come, as far as there are streams. `rows`: as in
// PullOptions; the result refers to them. `knows_rows`: the server is known to.
std::vector<PullPart> MakePullParts(const ShardLayout& shard, absl::Span<const VariableRows> rows,
                                    bool knows_rows, int connections);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_PARTS_H_
