// Errors of the operating system as statuses.
#ifndef MILLRACE_COMMON_SYSTEM_ERROR_H_
#define MILLRACE_COMMON_SYSTEM_ERROR_H_

#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

// "cannot OPERATION PATH: REASON". `error` is an errno. RESOURCE_EXHAUSTED: there is no room.
inline absl::Status SystemError(absl::string_view operation, const std::string& path, int error) {
  const absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat("cannot ", operation, " ", path));
  // A limit of the size of files (ulimit -f) is a full disk to who runs into it.
  return error == EFBIG ? absl::ResourceExhaustedError(status.message()) : status;
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_SYSTEM_ERROR_H_
