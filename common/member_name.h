// The names of ps servers and workers.
#ifndef MILLRACE_COMMON_MEMBER_NAME_H_
#define MILLRACE_COMMON_MEMBER_NAME_H_

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

inline constexpr size_t kMaxMemberNameLength = 100;

// INVALID_ARGUMENT names `path`, the flag or field that the name is from.
inline absl::Status CheckMemberName(absl::string_view path, absl::string_view name) {
  const bool valid =
      !name.empty() && name.size() <= kMaxMemberNameLength &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": '", absl::CHexEscape(name.substr(0, kMaxMemberNameLength)), "'; must be 1 to ",
      kMaxMemberNameLength, " printable characters without spaces"));
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_MEMBER_NAME_H_
