// Names that go into log lines, file names and command lines as they are.
#ifndef MILLRACE_COMMON_PLAIN_NAME_H_
#define MILLRACE_COMMON_PLAIN_NAME_H_

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Whether it has only letters, digits, '_', '-' and '.': no blanks, nothing to quote.
inline bool IsPlainName(absl::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-.", c);
  });
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_PLAIN_NAME_H_
