// What the command lines of the servers and of the client have in common. CLI11 reads them.
#ifndef MILLRACE_COMMON_FLAGS_H_
#define MILLRACE_COMMON_FLAGS_H_

#include <ostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/address.h"

namespace millrace {

// The exit status of a process that cannot make sense of its command line.
inline constexpr int kWrongUsage = 2;

// Writes `message` and where to find help. Returns kWrongUsage.
int ComplainOfUsage(absl::string_view message, std::ostream& err);

// INVALID_ARGUMENT where an argument is "--NAME=", as a script writes it when a variable of its own
// is empty: CLI11 would take the next argument, another flag, for the value.
absl::Status CheckNoEmptyFlag(int argc, const char* const* argv);

// A flag that takes a duration, such as "90s" or "10m"; unset, `value` stays as it is. What is no
// duration, or not one that `is_allowed` takes, is refused: "--NAME: TEXT; must be ALLOWED".
void AddDurationFlag(CLI::App& app, const std::string& name, absl::Duration* value,
                     bool (*is_allowed)(absl::Duration), const std::string& allowed,
                     const std::string& description);

// What --listen says. INVALID_ARGUMENT names the flag.
absl::StatusOr<Address> ParseListenFlag(absl::string_view listen);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FLAGS_H_
