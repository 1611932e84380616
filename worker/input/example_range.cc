#include "worker/input/example_range.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::worker {

absl::StatusOr<ResolvedRange> ResolveRange(const ExampleRange& range, uint64_t examples,
                                           const std::string& file, const std::string& field) {
  if (examples == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", file, ": holds no examples; must hold at least one"));
  }
  const std::string has = absl::StrCat(file, " has ", examples, " examples");
  if (range.end() > examples) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".range.end: ", range.end(), "; ", has));
  }
  const ResolvedRange resolved{range.begin(), range.end() == 0 ? examples : range.end()};
  if (resolved.begin >= resolved.end) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".range.begin: ", range.begin(), "; must be below ", resolved.end,
                     ", since ", range.end() == 0 ? has : "the range ends there"));
  }
  return resolved;
}

}  // namespace millrace::worker
