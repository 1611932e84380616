// `millrace train`.
#ifndef MILLRACE_CLIENT_COMMANDS_TRAIN_H_
#define MILLRACE_CLIENT_COMMANDS_TRAIN_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Trains a job to its end, on a cluster inside this process unless --cluster names one, and exports
// the variables where --export is given. A job of the embedded cluster that has checkpoints goes on
// from the furthest one. An interrupt leaves a job of another cluster alone; it ends one of the
// embedded cluster: at a checkpoint, if it has a directory for them, and otherwise by cancelling
// it.
absl::StatusOr<ExitCode> RunTrain(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_TRAIN_H_
