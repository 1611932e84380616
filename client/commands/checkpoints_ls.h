// `millrace checkpoints ls`.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_LS_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_LS_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints the checkpoints of a directory, the oldest first: those that are damaged or unfinished
// too, and folders that are checkpoints no more but have files of others.
absl::StatusOr<ExitCode> RunCheckpointsLs(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_LS_H_
