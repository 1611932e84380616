// The command line of the ps binary.
#ifndef MILLRACE_PS_PS_FLAGS_H_
#define MILLRACE_PS_PS_FLAGS_H_

#include "absl/types/optional.h"
#include "ps/ps_server.h"

namespace millrace::ps {

// Reads flags into `options`. What --coordinator, --listen and --name leave open comes from
// `tf_config` (the environment variable TF_CONFIG; may be null), which otherwise need not even be
// well-formed. Returns the exit status when the process is to end here: 0 after --help, 2 for wrong
// usage; what is wrong has been printed to stderr then.
absl::optional<int> ParsePsFlags(int argc, const char* const* argv, const char* tf_config,
                                 PsServerOptions* options);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_PS_FLAGS_H_
