// Whether what was pushed are numbers.
#ifndef MILLRACE_PS_DENSE_FINITE_H_
#define MILLRACE_PS_DENSE_FINITE_H_

#include <cstddef>

#include "absl/types/optional.h"
#include "common/wire/tensor_codec.h"

namespace millrace::ps {

struct NotFinite {
  size_t index = 0;  // The first one's.
  float value = 0;
};

// The first value that is infinite or NaN; nullopt: there is none. As fast as reading the values:
// called when they have just been received, it finds them in the processor's cache.
absl::optional<NotFinite> FindNotFinite(const FloatSlices& values);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_DENSE_FINITE_H_
