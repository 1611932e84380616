// Plain gradient descent that writes past the processor's caches.
#ifndef MILLRACE_PS_OPTIMIZER_STREAMED_DESCENT_H_
#define MILLRACE_PS_OPTIMIZER_STREAMED_DESCENT_H_

#include <cstddef>

namespace millrace::ps {

// The part [begin, end) of an update that is worth it: whole lines of the cache, or nothing where
// the update is small or in place.
struct StreamedPart {
  size_t begin = 0;
  size_t end = 0;
};
StreamedPart FindStreamedPart(const float* value_in, const float* value_out, size_t count);

// value_out = value_in - learning_rate * gradient, the same bits as any other way. What is
// overwritten is not read from memory first, as ordinary stores do: a third less traffic where the
// gradient has just been received. REQUIRES: a StreamedPart, not empty.
void DescendStreamed(float learning_rate, const char* gradient, size_t count, const float* value_in,
                     float* value_out);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_STREAMED_DESCENT_H_
