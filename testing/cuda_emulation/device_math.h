// Functions of numbers that CUDA has and C++ has not, as far as kernels here use them. Those with
// names of C (expf, fmaxf, erff ...) are the host's: they may differ from a GPU's in the last bits.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_DEVICE_MATH_H_
#define MILLRACE_TESTING_CUDA_EMULATION_DEVICE_MATH_H_

#include <math.h>

template <typename T>
inline T __ldg(const T* place) {
  return *place;
}

// Threads run one at a time.
inline float atomicAdd(float* place, float value) {
  const float before = *place;
  *place = before + value;
  return before;
}

inline float __fmul_rn(float a, float b) { return a * b; }

#endif  // MILLRACE_TESTING_CUDA_EMULATION_DEVICE_MATH_H_
