// Checks of single fields, for whoever checks a message that users write. `path` is the field's,
// such as "optimizer.sgd.momentum"; all return INVALID_ARGUMENT with the path, the value and what
// is allowed.
#ifndef MILLRACE_COMMON_FIELD_CHECKS_H_
#define MILLRACE_COMMON_FIELD_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// An error in any case: "PATH: not set; must be ALLOWED".
absl::Status NotSet(absl::string_view path, absl::string_view allowed);

absl::Status CheckNumber(absl::string_view path, uint64_t value, uint64_t lowest, uint64_t highest);
absl::Status CheckAtLeastOne(absl::string_view path, uint64_t value, uint64_t highest);

// At most 100 letters, digits, '_', '-' and '.'; may be empty.
absl::Status CheckName(absl::string_view path, const std::string& name);

// Not longer than a path may be.
absl::Status CheckPathLength(absl::string_view path, const std::string& file);

// Hyperparameters are used as float32 (in which a number below 1.2e-38 counts as 0), so that is
// where they have to keep their range.

// A finite number above 0.
absl::Status CheckPositive(absl::string_view path, double value);
// A finite number of at least 0.
absl::Status CheckNotNegative(absl::string_view path, double value);
// At least 0, below 1.
absl::Status CheckFraction(absl::string_view path, double value);

// From `lowest` to `highest`; used as float64.
absl::Status CheckRange(absl::string_view path, double value, double lowest, double highest);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FIELD_CHECKS_H_
