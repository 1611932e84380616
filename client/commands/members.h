// `millrace members`.
#ifndef MILLRACE_CLIENT_COMMANDS_MEMBERS_H_
#define MILLRACE_CLIENT_COMMANDS_MEMBERS_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints the ps servers and workers of a cluster.
absl::StatusOr<ExitCode> RunMembers(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_MEMBERS_H_
