// `millrace cancel`.
#ifndef MILLRACE_CLIENT_COMMANDS_CANCEL_H_
#define MILLRACE_CLIENT_COMMANDS_CANCEL_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Ends a job of a cluster early and prints what it came to.
absl::StatusOr<ExitCode> RunCancel(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CANCEL_H_
