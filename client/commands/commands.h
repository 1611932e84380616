// All commands by name.
#ifndef MILLRACE_CLIENT_COMMANDS_COMMANDS_H_
#define MILLRACE_CLIENT_COMMANDS_COMMANDS_H_

#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Runs the command that `context.flags` name and reports its error, if any.
ExitCode RunCommand(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_COMMANDS_H_
