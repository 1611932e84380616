// Whether floats are numbers.
#ifndef MILLRACE_COMMON_FINITE_H_
#define MILLRACE_COMMON_FINITE_H_

#include <cstddef>

#include "absl/types/span.h"

namespace millrace {

// The index of the first value that is infinite or NaN; values.size(): there is none. Reads as fast
// as memory gives: a step's gradients all go through it.
size_t FirstNotFinite(absl::Span<const float> values);

// Whether none of `count` floats is infinite or NaN; they need not be aligned. As fast.
bool AllFinite(const char* bytes, size_t count);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FINITE_H_
