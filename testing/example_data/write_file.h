// Files of generated data.
#ifndef MILLRACE_TESTING_EXAMPLE_DATA_WRITE_FILE_H_
#define MILLRACE_TESTING_EXAMPLE_DATA_WRITE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace::testing {

// UNAVAILABLE, with the path, where the folder cannot be made.
absl::Status MakeFolder(const std::string& path);

// Replaces the file at `path`. UNAVAILABLE, with the path.
absl::Status WriteBytes(const std::string& path, absl::string_view bytes);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_EXAMPLE_DATA_WRITE_FILE_H_
