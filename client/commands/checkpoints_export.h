// `millrace checkpoints export`.
#ifndef MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_EXPORT_H_
#define MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"
#include "client/interrupt.h"
#include "common/checkpoint/checkpoint_reader.h"

namespace millrace::client {

// Writes the variables of a checkpoint (with --slots the optimizer's slots too) to files that other
// programs read. Memory does not grow with the variables.
absl::StatusOr<ExitCode> RunCheckpointsExport(const CommandContext& context);

// Writes the variables of an open checkpoint, each followed by its slots if these are wanted, to
// `path` (CreateTensorWriter). CANCELLED: the interrupt came.
absl::Status ExportCheckpoint(Checkpoint* checkpoint, bool slots, const std::string& path,
                              const Interrupt& interrupt);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CHECKPOINTS_EXPORT_H_
