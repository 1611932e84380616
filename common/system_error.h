// Errors of the operating system as statuses.
#ifndef MILLRACE_COMMON_SYSTEM_ERROR_H_
#define MILLRACE_COMMON_SYSTEM_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

// "cannot OPERATION PATH: REASON". `error` is an errno.
inline absl::Status SystemError(absl::string_view operation, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", operation, " ", path));
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_SYSTEM_ERROR_H_
