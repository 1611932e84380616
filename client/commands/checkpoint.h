// `millrace checkpoint`.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINT_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINT_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Has a checkpoint of a job of a cluster written; with --wait returns when it is there.
absl::StatusOr<ExitCode> RunCheckpoint(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINT_H_
