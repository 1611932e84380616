// Files that people name on the command line.
#ifndef MILLRACE_CLIENT_COMMANDS_READ_TEXT_FILE_H_
#define MILLRACE_CLIENT_COMMANDS_READ_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace millrace::client {

// A UsageError where the file cannot be read, or has more than `most_bytes`: "cannot read the
// `what` PATH: ...".
absl::StatusOr<std::string> ReadTextFile(const std::string& what, const std::string& path,
                                         size_t most_bytes);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_READ_TEXT_FILE_H_
