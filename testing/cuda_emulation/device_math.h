// Functions of numbers that CUDA has and C++ has not, as far as kernels here use them. Those with
// names of C (expf, fmaxf, erff ...) are the host's: they may differ from a GPU's in the last bits.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_DEVICE_MATH_H_
#define MILLRACE_TESTING_CUDA_EMULATION_DEVICE_MATH_H_

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>

template <typename T>
inline T __ldg(const T* place) {
  return *place;
}
template <typename T>
inline T __ldcs(const T* place) {
  return *place;
}
template <typename T>
inline void __stcs(T* place, T value) {
  *place = value;
}

// Threads run one at a time.
inline float atomicAdd(float* place, float value) {
  const float before = *place;
  *place = before + value;
  return before;
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float rsqrtf(float a) { return static_cast<float>(1 / std::sqrt(double{a})); }
inline double rsqrt(double a) { return 1 / std::sqrt(a); }
inline float __saturatef(float a) {
  return std::isnan(a) ? 0 : std::fmin(std::fmax(a, 0.0f), 1.0f);
}

inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline double __longlong_as_double(long long a) { return std::bit_cast<double>(a); }

inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __ll2float_rn(long long a) { return static_cast<float>(a); }
inline float __ull2float_rn(unsigned long long a) { return static_cast<float>(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __popcll(unsigned long long a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __clzll(long long a) { return std::countl_zero(static_cast<unsigned long long>(a)); }
inline int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }
inline unsigned __brev(unsigned a) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= ((a >> bit) & 1u) << (31 - bit);
  return reversed;
}

// As CUDA's, which are of the global namespace. Of floats, what is no number loses.
#define CUDA_EMULATION_MIN_MAX(type)                        \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
CUDA_EMULATION_MIN_MAX(int)
CUDA_EMULATION_MIN_MAX(unsigned int)
CUDA_EMULATION_MIN_MAX(long)
CUDA_EMULATION_MIN_MAX(unsigned long)
CUDA_EMULATION_MIN_MAX(long long)
CUDA_EMULATION_MIN_MAX(unsigned long long)
#undef CUDA_EMULATION_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

#endif  // MILLRACE_TESTING_CUDA_EMULATION_DEVICE_MATH_H_
