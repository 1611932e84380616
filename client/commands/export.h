// `millrace export`.
#ifndef MILLRACE_CLIENT_COMMANDS_EXPORT_H_
#define MILLRACE_CLIENT_COMMANDS_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/commands/command.h"
#include "client/commands/exit_code.h"

namespace millrace::client {

// Writes the variables of a job that has ended, with --while_running of one that has not, to files
// that other programs read.
absl::StatusOr<ExitCode> RunExport(const CommandContext& context);

// CheckTensorPath; what is wrong with the name itself is a UsageError.
absl::Status CheckExportFile(const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_EXPORT_H_
