// `millrace checkpoints verify`.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_VERIFY_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_VERIFY_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Reads every byte of a checkpoint and names each damaged place, and then the furthest whole
// one. kFailed: it is damaged.
absl::StatusOr<ExitCode> RunCheckpointsVerify(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_VERIFY_H_
