// The command line of the coordinator binary.
#ifndef MILLRACE_COORDINATOR_COORDINATOR_FLAGS_H_
#define MILLRACE_COORDINATOR_COORDINATOR_FLAGS_H_

#include "absl/types/optional.h"
#include "coordinator/coordinator.h"

namespace millrace::coordinator {

// Reads flags into `options`. Without --listen the address, and without --min_ps the number of ps
// servers to wait for, come from `tf_config` (the environment variable TF_CONFIG; may be null).
// Returns the exit status when the process is to end here: 0 after --help, 2 for wrong flags or a
// wrong TF_CONFIG. What is wrong has been printed to stderr then.
absl::optional<int> ParseCoordinatorFlags(int argc, const char* const* argv, const char* tf_config,
                                          CoordinatorOptions* options);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_COORDINATOR_FLAGS_H_
