// Activations whose gradients follow from their outputs, as steps within or after another layer.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_FUNCTION_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_FUNCTION_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// For kernels of layers that ReLU is a part of.
struct ReluGradient {
  MILLRACE_DEVICE float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};

// y = function(x), of `rows` rows of `columns` values; softmax is over each row. y may be x.
// Enqueued. REQUIRES: a function up to kElu.
void ApplyFunction(cudaStream_t stream, Function function, int64_t rows, int64_t columns,
                   const float* x, float* y);

// In place.
inline void ApplyFunction(cudaStream_t stream, Function function, int64_t rows, int64_t columns,
                          float* y) {
  ApplyFunction(stream, function, rows, columns, y, y);
}

// dx = dy * function'(x), from y = function(x); dx may be dy. Likewise.
void ApplyGradient(cudaStream_t stream, Function function, int64_t rows, int64_t columns,
                   const float* y, const float* dy, float* dx);

// dy becomes ReLU's gradient, from y; of `count` values in bfloat16. Enqueued. Throws Error where
// these are not aligned to 16 bytes.
void ApplyNarrowReluGradient(cudaStream_t stream, size_t count, const void* y, void* dy);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_FUNCTION_H_
