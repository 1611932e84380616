// What the files that implement Shard share: shard.cc, shard_cuts.cc,
// shard_memory.cc, shard_norms.cc, shard_reading.cc and shard_retire.cc.
#ifndef MILLRACE_PS_SHARD_SHARD_INTERNAL_H_
#define MILLRACE_PS_SHARD_SHARD_INTERNAL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "ps/shard/shard.h"

namespace millrace::ps {

// Calls to be made, and memory to be released, when the lock is no longer held.
struct Shard::Effects {
  std::vector<std::pair<PushAnswer, PushResponse>> answers;
  std::vector<std::pair<StateCallback, absl::StatusOr<StatePtr>>> woken;
  absl::optional<Work> work;
  uint64_t rule = 0;  // Whose work it is.
  bool tell = false;  // The cut listener.
  StepRule::Released released;
  std::vector<PushPtr> dropped;
};

// The rule of the spec's mode. `tools` must outlive it.
std::unique_ptr<StepRule> MakeRule(const UpdateTools& tools, const ShardSpec& spec,
                                   const std::vector<PushPtr>& held);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_SHARD_INTERNAL_H_
