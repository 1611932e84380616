// The command line of `millrace`.
#ifndef MILLRACE_CLIENT_COMMANDS_COMMAND_LINE_H_
#define MILLRACE_CLIENT_COMMANDS_COMMAND_LINE_H_

#include "absl/types/optional.h"
#include "client/commands/exit_code.h"
#include "client/commands/flags.h"
#include "client/console.h"

namespace millrace::client {

struct CommandLine {
  Flags flags;
  // There is nothing to run: help was asked for and written, or something is wrong and was
  // reported.
  absl::optional<ExitCode> exit;
};

// Reads the arguments, and MILLRACE_CLUSTER from the environment. Every rule about which flags go
// together is checked here; values are checked by those that use them.
CommandLine ParseCommandLine(int argc, const char* const* argv, const Console& console);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_COMMAND_LINE_H_
