// bfloat16, as far as kernels here use it.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_
#define MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_

#include <bit>
#include <cmath>
#include <cstdint>

// NOLINTNEXTLINE(readability-identifier-naming): CUDA's name.
struct __nv_bfloat16 {
  uint16_t emulated_bits;  // The upper half of a float's.
};

// To the nearest, of two equally near ones the even one.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  if (std::isnan(value)) return {0x7fff};
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(uint32_t{value.emulated_bits} << 16);
}

#endif  // MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_CUDA_BF16_H_
