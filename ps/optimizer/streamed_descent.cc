// The compiler makes no non-temporal stores of its own, so this one loop is written for each
// instruction set, in the same way. The loader picks one, as it does with the kernels of kernel.h.
#include "ps/optimizer/streamed_descent.h"

#include <cstdint>

#include "ps/optimizer/kernel.h"

#if defined(MILLRACE_KERNEL_CLONES)
#include <immintrin.h>
#endif

namespace millrace::ps {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kLineFloats = kLineBytes / sizeof(float);
// A smaller variable is still in the cache when it is pulled. Received slices are 64 KiB.
constexpr size_t kLeastBytes = size_t{32} << 10;

#if defined(MILLRACE_KERNEL_CLONES)

__attribute__((target("avx512f"))) void DescendLines(float learning_rate, const char* gradient,
                                                     size_t count, const float* value_in,
                                                     float* value_out) {
  const __m512 rate = _mm512_set1_ps(learning_rate);
  for (size_t i = 0; i < count; i += 16) {
    const __m512 step = _mm512_mul_ps(rate, _mm512_loadu_ps(gradient + i * sizeof(float)));
    _mm512_stream_ps(value_out + i, _mm512_sub_ps(_mm512_loadu_ps(value_in + i), step));
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void DescendLines(float learning_rate, const char* gradient,
                                                  size_t count, const float* value_in,
                                                  float* value_out) {
  const __m256 rate = _mm256_set1_ps(learning_rate);
  for (size_t i = 0; i < count; i += 8) {
    const auto* const bytes = reinterpret_cast<const float*>(gradient + i * sizeof(float));
    const __m256 step = _mm256_mul_ps(rate, _mm256_loadu_ps(bytes));
    _mm256_stream_ps(value_out + i, _mm256_sub_ps(_mm256_loadu_ps(value_in + i), step));
  }
  _mm_sfence();
}

__attribute__((target("default")))
#endif
void DescendLines(float learning_rate, const char* gradient, size_t count, const float* value_in,
                  float* value_out) {
  for (size_t i = 0; i < count; ++i) {
    value_out[i] = value_in[i] - learning_rate * LoadFloat(gradient, i);
  }
}

}  // namespace

StreamedPart FindStreamedPart(const float* value_in, const float* value_out, size_t count) {
  if (value_in == value_out || count * sizeof(float) < kLeastBytes) return {};
  const size_t past = reinterpret_cast<uintptr_t>(value_out) % kLineBytes;
  const size_t begin = (kLineBytes - past) % kLineBytes / sizeof(float);
  return {begin, begin + (count - begin) / kLineFloats * kLineFloats};
}

void DescendStreamed(float learning_rate, const char* gradient, size_t count, const float* value_in,
                     float* value_out) {
  DescendLines(learning_rate, gradient, count, value_in, value_out);
}

}  // namespace millrace::ps
