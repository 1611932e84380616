// `millrace convert`.
#ifndef MILLRACE_CLIENT_COMMANDS_CONVERT_H_
#define MILLRACE_CLIENT_COMMANDS_CONVERT_H_

#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Prints the model of a file that Keras wrote as a job file, with what the file says of how it is
// trained; writes its weights where --weights says. What a person should know of it goes to the
// other stream, and what to run next.
absl::StatusOr<ExitCode> RunConvert(const CommandContext& context);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_CONVERT_H_
