// The values that variables start with.
#ifndef MILLRACE_PS_DENSE_INITIAL_VALUE_H_
#define MILLRACE_PS_DENSE_INITIAL_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/job.pb.h"

namespace millrace::ps {

// INVALID_ARGUMENT: `path`, which `field` has, is not absolute, or longer than 4096 bytes.
absl::Status CheckAbsolutePath(absl::string_view field, absl::string_view path);

// INVALID_ARGUMENT: no kind, a number that is not finite, low above high, a negative stddev; the
// message begins with `path`, the field's.
absl::Status CheckInitialValue(const InitialValue& initial_value, absl::string_view path);

// Fills `values` with elements offset, offset + 1, ... of a variable. Element i is a function of
// the seed, the variable's name and i alone (a counter-based generator), so that a variable starts
// the same however it is divided and wherever its parts are. Those of a stored tensor are for
// somebody else to read: 0. REQUIRES: `initial_value` has passed
// CheckInitialValue.
void FillInitialValues(const InitialValue& initial_value, uint64_t seed,
                       const std::string& variable_name, uint64_t offset, absl::Span<float> values);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_INITIAL_VALUE_H_
