// `millrace why`.
#ifndef MILLRACE_CLIENT_COMMANDS_WHY_H_
#define MILLRACE_CLIENT_COMMANDS_WHY_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints for whom a job of a cluster waits.
absl::StatusOr<ExitCode> RunWhy(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_WHY_H_
