// `millrace summary`.
#ifndef MILLRACE_CLIENT_COMMANDS_SUMMARY_H_
#define MILLRACE_CLIENT_COMMANDS_SUMMARY_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints the model of a job on its data as Keras's model.summary() does, and what it costs. A job
// without the folder of its data is wrong usage. Blocks while it reads the data.
absl::StatusOr<ExitCode> RunSummary(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_SUMMARY_H_
