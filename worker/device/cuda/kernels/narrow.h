// Values in bfloat16, which are called narrow, beside floats.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NARROW_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NARROW_H_

#include <cuda_bf16.h>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

MILLRACE_DEVICE float ToFloat(float value) { return value; }
MILLRACE_DEVICE float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

// Rounds to the nearest, of two equally near ones to the even one.
MILLRACE_DEVICE void Store(float value, float* to) { *to = value; }
MILLRACE_DEVICE void Store(float value, __nv_bfloat16* to) { *to = __float2bfloat16_rn(value); }

// What one instruction loads or stores.
struct alignas(16) EightNarrow {
  __nv_bfloat16 values[8];
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NARROW_H_
