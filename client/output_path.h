// Whether a user can write where they want to.
#ifndef MILLRACE_CLIENT_OUTPUT_PATH_H_
#define MILLRACE_CLIENT_OUTPUT_PATH_H_

#include <string>

#include "absl/status/status.h"

namespace millrace::client {

// Whether a file can be made at `path`: its directory is there and can be written to, and what is
// at `path` now, if anything, is a file that may be replaced: no directory and no device. For
// telling a user early; it says nothing of what happens later.
absl::Status CheckCanCreate(const std::string& path);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_OUTPUT_PATH_H_
