// `millrace list`.
#ifndef MILLRACE_CLIENT_COMMANDS_LIST_H_
#define MILLRACE_CLIENT_COMMANDS_LIST_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints the jobs of a cluster, the newest first.
absl::StatusOr<ExitCode> RunList(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_LIST_H_
