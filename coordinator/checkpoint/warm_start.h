// Which tensor of a file each variable of a job begins as. Pure functions.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_WARM_START_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_WARM_START_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Tensors of a file or a checkpoint, by name, with their shapes.
using StoredShapes = std::map<std::string, std::vector<uint64_t>>;

struct WarmStart {
  // By variable; empty: it has its initial values.
  std::vector<std::string> tensors;
  // For people: what begins with its initial values and what was left out. Empty: nothing.
  std::string notice;
};

// INVALID_ARGUMENT: a pattern is none, tensors are missing or left over that may not be (the first
// 20 are named), or a shape is not the variable's.
absl::StatusOr<WarmStart> MatchTensors(const WarmStartSpec& spec, const JobPlan& plan,
                                       const StoredShapes& stored);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_WARM_START_H_
