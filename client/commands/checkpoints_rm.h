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
// (CheckpointHold), what it may need stays with --force too: while it has none of its own there,
// that is what it goes on from, and where it does not say what that is, all of them.
// FAILED_PRECONDITION: it is needed, or another such command is at it. UNAVAILABLE: the disk fails,
// or somebody else got the directory meanwhile; some may be removed.
absl::StatusOr<ExitCode> RunCheckpointsRm(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_RM_H_
