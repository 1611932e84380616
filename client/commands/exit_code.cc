#include "client/commands/exit_code.h"

#include "absl/strings/cord.h"

namespace millrace::client {
namespace {

// The payload that marks a usage error.
constexpr char kUsageMark[] = "millrace/usage";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageMark, absl::Cord());
  return status;
}

ExitCode ExitCodeOf(const absl::Status& error) {
  return error.GetPayload(kUsageMark).has_value() ? ExitCode::kUsage : ExitCode::kFailed;
}

}  // namespace millrace::client
