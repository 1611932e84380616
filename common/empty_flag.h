// What CLI11 does not refuse by itself.
#ifndef MILLRACE_COMMON_EMPTY_FLAG_H_
#define MILLRACE_COMMON_EMPTY_FLAG_H_

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

// INVALID_ARGUMENT where an argument is "--NAME=", as a script writes it when a variable of its own
// is empty: CLI11 would take the next argument, another flag, for the value.
inline absl::Status CheckNoEmptyFlag(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--") break;
    if (!absl::StartsWith(argument, "--") || argument.find('=') != argument.size() - 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(argument.substr(0, argument.size() - 1),
                     ": no value after '='; give one, or leave the flag out"));
  }
  return absl::OkStatus();
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_EMPTY_FLAG_H_
