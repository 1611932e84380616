// Written for each instruction set, as streamed_descent.cc is and for the same reason.
#include "ps/optimizer/streamed_rmsprop.h"

#include <cmath>

#include "ps/optimizer/kernel.h"

#if defined(MILLRACE_KERNEL_CLONES)
#include <immintrin.h>
#endif

namespace millrace::ps {
namespace {

#if defined(MILLRACE_KERNEL_CLONES)

// For a root with a mask: without one, gcc 12 warns of its own header.
constexpr __mmask16 kAllLanes = 0xffff;

__attribute__((target("avx512f"))) void RmsPropLines(const RmsPropRates& rates,
                                                     const char* gradient, size_t count,
                                                     const float* const* in, float* const* out) {
  const __m512 rho = _mm512_set1_ps(rates.rho);
  const __m512 one_minus_rho = _mm512_set1_ps(rates.one_minus_rho);
  const __m512 epsilon = _mm512_set1_ps(rates.epsilon);
  const __m512 learning_rate = _mm512_set1_ps(rates.learning_rate);
  for (size_t i = 0; i < count; i += 16) {
    const __m512 g = _mm512_loadu_ps(gradient + i * sizeof(float));
    const __m512 square = _mm512_add_ps(_mm512_mul_ps(rho, _mm512_loadu_ps(in[1] + i)),
                                        _mm512_mul_ps(one_minus_rho, _mm512_mul_ps(g, g)));
    const __m512 step =
        _mm512_div_ps(_mm512_mul_ps(learning_rate, g),
                      _mm512_maskz_sqrt_ps(kAllLanes, _mm512_add_ps(square, epsilon)));
    _mm512_stream_ps(out[1] + i, square);
    _mm512_stream_ps(out[0] + i, _mm512_sub_ps(_mm512_loadu_ps(in[0] + i), step));
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void RmsPropLines(const RmsPropRates& rates, const char* gradient,
                                                  size_t count, const float* const* in,
                                                  float* const* out) {
  const __m256 rho = _mm256_set1_ps(rates.rho);
  const __m256 one_minus_rho = _mm256_set1_ps(rates.one_minus_rho);
  const __m256 epsilon = _mm256_set1_ps(rates.epsilon);
  const __m256 learning_rate = _mm256_set1_ps(rates.learning_rate);
  for (size_t i = 0; i < count; i += 8) {
    const __m256 g = _mm256_loadu_ps(reinterpret_cast<const float*>(gradient + i * sizeof(float)));
    const __m256 square = _mm256_add_ps(_mm256_mul_ps(rho, _mm256_loadu_ps(in[1] + i)),
                                        _mm256_mul_ps(one_minus_rho, _mm256_mul_ps(g, g)));
    const __m256 step = _mm256_div_ps(_mm256_mul_ps(learning_rate, g),
                                      _mm256_sqrt_ps(_mm256_add_ps(square, epsilon)));
    _mm256_stream_ps(out[1] + i, square);
    _mm256_stream_ps(out[0] + i, _mm256_sub_ps(_mm256_loadu_ps(in[0] + i), step));
  }
  _mm_sfence();
}

__attribute__((target("default")))
#endif
void RmsPropLines(const RmsPropRates& rates, const char* gradient, size_t count,
                  const float* const* in, float* const* out) {
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float square = rates.rho * in[1][i] + rates.one_minus_rho * (g * g);
    out[1][i] = square;
    out[0][i] = in[0][i] - rates.learning_rate * g / std::sqrt(square + rates.epsilon);
  }
}

}  // namespace

void RmsPropStreamed(const RmsPropRates& rates, const char* gradient, size_t count,
                     const float* const* in, float* const* out) {
  RmsPropLines(rates, gradient, count, in, out);
}

}  // namespace millrace::ps
