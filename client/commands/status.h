// `millrace status`.
#ifndef MILLRACE_CLIENT_COMMANDS_STATUS_H_
#define MILLRACE_CLIENT_COMMANDS_STATUS_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints what a cluster knows of a job.
absl::StatusOr<ExitCode> RunStatus(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_STATUS_H_
