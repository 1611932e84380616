// `millrace rebalance`.
#ifndef MILLRACE_CLIENT_COMMANDS_REBALANCE_H_
#define MILLRACE_CLIENT_COMMANDS_REBALANCE_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Has a running job's shards spread over all ps servers, and prints what moves.
absl::StatusOr<ExitCode> RunRebalance(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_REBALANCE_H_
