// Functions of one number, element by element.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// y = function(x); y may be x.
template <typename F>
__global__ void ApplyKernel(F function, size_t count, const float* x, float* y) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) y[i] = function(x[i]);
}

// dx = gradient(value, dy); dx may be dy.
template <typename F>
__global__ void ApplyGradientKernel(F gradient, size_t count, const float* values, const float* dy,
                                    float* dx) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    dx[i] = gradient(values[i], dy[i]);
  }
}

template <typename F>
void Apply(cudaStream_t stream, F function, size_t count, const float* x, float* y) {
  LaunchFor(stream, count, ApplyKernel<F>, function, count, x, y);
}

template <typename F>
void ApplyGradient(cudaStream_t stream, F gradient, size_t count, const float* values,
                   const float* dy, float* dx) {
  LaunchFor(stream, count, ApplyGradientKernel<F>, gradient, count, values, dy, dx);
}

// Identity where `to` is another place.
inline void CopyFloats(cudaStream_t stream, size_t count, const float* from, float* to) {
  if (from == to || count == 0) return;
  Check(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
