// The command line of a worker binary.
#ifndef MILLRACE_WORKER_WORKER_FLAGS_H_
#define MILLRACE_WORKER_WORKER_FLAGS_H_

#include "absl/types/optional.h"
#include "worker/worker.h"

namespace millrace::worker {

// Reads flags into `options`; what they do not say comes from `tf_config` (the environment variable
// TF_CONFIG; may be null). Returns the exit status when the process is to end here: 0 after --help,
// 2 for wrong usage. What is wrong has been printed to stderr then.
absl::optional<int> ParseWorkerFlags(int argc, const char* const* argv, const char* tf_config,
                                     WorkerOptions* options);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_WORKER_FLAGS_H_
