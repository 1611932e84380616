// `millrace validate`.
#ifndef MILLRACE_CLIENT_COMMANDS_VALIDATE_H_
#define MILLRACE_CLIENT_COMMANDS_VALIDATE_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Checks a job, and with its data the model too; prints the layers and what the job will take.
absl::StatusOr<ExitCode> RunValidate(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_VALIDATE_H_
