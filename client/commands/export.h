// `millrace export`.
#ifndef MILLRACE_CLIENT_COMMANDS_EXPORT_H_
#define MILLRACE_CLIENT_COMMANDS_EXPORT_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Writes the variables of a job that has ended, with --while_running of one that has not, to files
// that other programs read.
absl::StatusOr<ExitCode> RunExport(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_EXPORT_H_
