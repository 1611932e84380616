// Plain RMSprop that writes past the processor's caches.
#ifndef MILLRACE_PS_OPTIMIZER_STREAMED_RMSPROP_H_
#define MILLRACE_PS_OPTIMIZER_STREAMED_RMSPROP_H_

#include <cstddef>

namespace millrace::ps {

struct RmsPropRates {
  float rho;
  float one_minus_rho;
  float momentum;
  float epsilon;
  float learning_rate = 0;  // Of this version.
};

// Without momentum, not centered: in[0] and out[0] are values, in[1] and out[1] the squares' means.
// The same bits as any other way, without reading first from memory what is overwritten. REQUIRES:
// a StreamedPart of the values, not empty; both `out` lie alike in the cache's lines.
void RmsPropStreamed(const RmsPropRates& rates, const char* gradient, size_t count,
                     const float* const* in, float* const* out);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_STREAMED_RMSPROP_H_
