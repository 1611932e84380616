// `millrace checkpoints rm`.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_RM_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_RM_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Removes a checkpoint, or with --keep=N all but the newest N whole ones (those that are damaged go
// only by their names), and what no checkpoint needs. What others refer to stays. The furthest
// whole one, which a job goes on from, goes only with --force; to know which it is, values are
// read. No job begins in the directory while something is removed; where one has it already
// (CheckpointHold), what it may need stays with --force too.
absl::StatusOr<ExitCode> RunCheckpointsRm(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_RM_H_
