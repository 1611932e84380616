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

// Tensors of a file or a checkpoint, by name.
struct StoredShapes {
  std::string where;  // For people: "checkpoint 000017 at step 600 in DIR", or the file.
  std::map<std::string, std::vector<uint64_t>> shapes;
  std::map<std::string, std::string> unreadable;  // Of types that are no variable's: the types.
};

struct WarmStart {
  // By variable; empty: it has its initial values.
  std::vector<std::string> tensors;
  // For people: what begins with its initial values and what was left out. Empty: nothing.
  std::string notice;
};

// INVALID_ARGUMENT: a pattern is none or matches no variable, tensors are missing or left over that
// may not be (the first 20 are named), or a shape is not the variable's, or a type nobody's. Of the
// other tensors those that are not readable do not count as left over.
absl::StatusOr<WarmStart> MatchTensors(const WarmStartSpec& spec, const JobPlan& plan,
                                       const StoredShapes& stored);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_WARM_START_H_
