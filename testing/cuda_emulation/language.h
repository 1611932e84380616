// CUDA's additions to C++: qualifiers, vectors, and what a thread knows of itself.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_LANGUAGE_H_
#define MILLRACE_TESTING_CUDA_EMULATION_LANGUAGE_H_

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

// With AddressSanitizer an ordinary variable, since only these have red zones around them.
// Otherwise one of the thread, since these can be told from others when they are filled
// (shared_memory.h).
#if defined(__SANITIZE_ADDRESS__)
#define CUDA_EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDA_EMULATION_ASAN 1
#endif
#endif
#ifdef CUDA_EMULATION_ASAN
#define __shared__ static
#else
#define __shared__ static thread_local
#endif

struct uint3 {
  unsigned int x, y, z;
};

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
  // NOLINTNEXTLINE(google-explicit-constructor): as CUDA has it.
  constexpr dim3(unsigned int x_size = 1, unsigned int y_size = 1, unsigned int z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr dim3(uint3 sizes) : x(sizes.x), y(sizes.y), z(sizes.z) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator uint3() const { return uint3{x, y, z}; }
};

#define CUDA_EMULATION_VECTORS(type, name, align2, align4)         \
  struct __attribute__((aligned(align2))) name##2 {                \
    type x, y;                                                     \
  };                                                               \
  struct __attribute__((aligned(align4))) name##4 {                \
    type x, y, z, w;                                               \
  };                                                               \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUDA_EMULATION_VECTORS(signed char, char, 2, 4)
CUDA_EMULATION_VECTORS(unsigned char, uchar, 2, 4)
CUDA_EMULATION_VECTORS(short, short, 4, 8)
CUDA_EMULATION_VECTORS(unsigned short, ushort, 4, 8)
CUDA_EMULATION_VECTORS(int, int, 8, 16)
CUDA_EMULATION_VECTORS(unsigned int, uint, 8, 16)
CUDA_EMULATION_VECTORS(float, float, 8, 16)
CUDA_EMULATION_VECTORS(double, double, 16, 16)
CUDA_EMULATION_VECTORS(long long, longlong, 16, 16)
CUDA_EMULATION_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef CUDA_EMULATION_VECTORS

// Of the thread that runs. Kernels run one at a time (block.h), so one of each is enough.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

#endif  // MILLRACE_TESTING_CUDA_EMULATION_LANGUAGE_H_
