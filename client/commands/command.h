// What every command is given.
#ifndef MILLRACE_CLIENT_COMMANDS_COMMAND_H_
#define MILLRACE_CLIENT_COMMANDS_COMMAND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/commands/exit_code.h"
#include "client/commands/flags.h"
#include "client/commands/furthest_whole.h"
#include "client/console.h"
#include "client/interrupt.h"
#include "client/jobs_client.h"
#include "client/progress/progress_view.h"
#include "worker/devices.h"

namespace millrace::client {

struct CommandContext {
  Flags flags;
  Console console;
  // Triggered when the user wants to stop. Not owned.
  Interrupt* interrupt = nullptr;
  // As in EmbeddedClusterOptions.
  worker::CudaLoader load_cuda = nullptr;
};

// Runs to its end. An error that is returned was not reported yet.
using Command = absl::StatusOr<ExitCode> (*)(const CommandContext& context);

// A client for the cluster that --cluster names. Waits for it are told in `view`, or on standard
// error where there is none; `view` must then outlive the client. `timeout`: see JobsClientOptions.
// UsageError: the address is malformed.
absl::StatusOr<std::unique_ptr<JobsClient>> Connect(
    const CommandContext& context, ProgressView* view = nullptr,
    absl::Duration timeout = JobsClientOptions().timeout);

// Tells in `view`, which must then outlive it, or on standard error where there is none.
Reading ReadingFor(const CommandContext& context, ProgressView* view = nullptr);

// Writes "millrace: ..." to standard error.
void PrintError(const CommandContext& context, const absl::Status& error);

// PrintError, and with --json an object with "event": "error", "code"
// and "message" to standard output.
void ReportError(const CommandContext& context, const absl::Status& error);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_COMMAND_H_
