// `millrace export`.
#ifndef MILLRACE_CLIENT_COMMANDS_EXPORT_H_
#define MILLRACE_CLIENT_COMMANDS_EXPORT_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Writes the variables of a job that has ended to a safetensors file.
absl::StatusOr<ExitCode> RunExport(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_EXPORT_H_
