// `millrace watch`.
#ifndef MILLRACE_CLIENT_COMMANDS_WATCH_H_
#define MILLRACE_CLIENT_COMMANDS_WATCH_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Follows a job of a cluster to its end. An interrupt leaves the job alone.
absl::StatusOr<ExitCode> RunWatch(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_WATCH_H_
