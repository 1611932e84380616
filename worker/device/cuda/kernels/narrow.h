// Values in bfloat16, which are called narrow here and in worker/model/walk.h, beside floats.
// (common/wire's Narrow makes float16, too.)
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NARROW_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NARROW_H_

#include <cuda_bf16.h>

#include <cstdint>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

MILLRACE_DEVICE float ToFloat(float value) { return value; }
MILLRACE_DEVICE float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

MILLRACE_DEVICE void Store(float value, float* to) { *to = value; }
// Rounded to the nearest, of two equally near ones to the even one.
MILLRACE_DEVICE void Store(float value, __nv_bfloat16* to) { *to = __float2bfloat16_rn(value); }

// What one instruction loads or stores.
struct alignas(16) EightNarrow {
  __nv_bfloat16 values[8];
};

// Whether both stand where an EightNarrow may.
inline bool AlignedForEights(const void* a, const void* b) {
  return reinterpret_cast<uintptr_t>(a) % sizeof(EightNarrow) == 0 &&
         reinterpret_cast<uintptr_t>(b) % sizeof(EightNarrow) == 0;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NARROW_H_
