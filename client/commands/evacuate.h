// `millrace evacuate`.
#ifndef MILLRACE_CLIENT_COMMANDS_EVACUATE_H_
#define MILLRACE_CLIENT_COMMANDS_EVACUATE_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Has all jobs that run leave a ps server, and waits until they have.
absl::StatusOr<ExitCode> RunEvacuate(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_EVACUATE_H_
