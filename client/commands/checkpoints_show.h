// `millrace checkpoints show`.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_SHOW_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_SHOW_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints what a checkpoint has: its job, its step, and statistics of each variable. Reads all
// values.
absl::StatusOr<ExitCode> RunCheckpointsShow(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_SHOW_H_
