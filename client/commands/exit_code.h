// What `millrace` exits with; `millrace --help` documents it.
#ifndef MILLRACE_CLIENT_COMMANDS_EXIT_CODE_H_
#define MILLRACE_CLIENT_COMMANDS_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::client {

enum class ExitCode {
  kSucceeded = 0,
  // The job failed or was cancelled, its content is wrong, or something went wrong on the way.
  kFailed = 1,
  // The command line is wrong: an unknown flag, a job file that cannot be read, a bad --set.
  kUsage = 2,
  // As a shell says of a program that SIGINT ended.
  kInterrupted = 130,
};

// An INVALID_ARGUMENT that is the command line's fault.
absl::Status UsageError(absl::string_view message);

// For an error that a command returned.
ExitCode ExitCodeOf(const absl::Status& error);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_EXIT_CODE_H_
