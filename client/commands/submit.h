// `millrace submit`.
#ifndef MILLRACE_CLIENT_COMMANDS_SUBMIT_H_
#define MILLRACE_CLIENT_COMMANDS_SUBMIT_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Takes a job to a cluster and prints its id; the job goes on by itself.
absl::StatusOr<ExitCode> RunSubmit(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_SUBMIT_H_
