// Functions of one number, element by element.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "worker/device/cuda/kernels/fours.h"
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

// The same of four at a time, at last what is left over; a thread reads all that it writes before.
template <typename F>
__global__ void ApplyFoursKernel(F function, size_t count, const float* x, float* y) {
  const size_t fours = count / 4;
  for (size_t i = FirstElement(); i < fours; i += ElementStride()) {
    FourFloats four = reinterpret_cast<const FourFloats*>(x)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) four.values[k] = function(four.values[k]);
    reinterpret_cast<FourFloats*>(y)[i] = four;
  }
  const size_t last = 4 * fours + FirstElement();
  if (last < count) y[last] = function(x[last]);
}

template <typename F>
__global__ void ApplyGradientFoursKernel(F gradient, size_t count, const float* values,
                                         const float* dy, float* dx) {
  const size_t fours = count / 4;
  for (size_t i = FirstElement(); i < fours; i += ElementStride()) {
    const FourFloats value = reinterpret_cast<const FourFloats*>(values)[i];
    FourFloats four = reinterpret_cast<const FourFloats*>(dy)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) four.values[k] = gradient(value.values[k], four.values[k]);
    reinterpret_cast<FourFloats*>(dx)[i] = four;
  }
  const size_t last = 4 * fours + FirstElement();
  if (last < count) dx[last] = gradient(values[last], dy[last]);
}

template <typename F>
void Apply(cudaStream_t stream, F function, size_t count, const float* x, float* y) {
  if (count == 0) return;
  const bool by_fours = AlignedForFours(x, y);
  Launch(stream, BlocksFor(by_fours ? count / 4 : count), kThreads,
         by_fours ? ApplyFoursKernel<F> : ApplyKernel<F>, function, count, x, y);
}

template <typename F>
void ApplyGradient(cudaStream_t stream, F gradient, size_t count, const float* values,
                   const float* dy, float* dx) {
  if (count == 0) return;
  const bool by_fours = AlignedForFours(values, dy, dx);
  Launch(stream, BlocksFor(by_fours ? count / 4 : count), kThreads,
         by_fours ? ApplyGradientFoursKernel<F> : ApplyGradientKernel<F>, gradient, count, values,
         dy, dx);
}

// Identity where `to` is another place.
inline void CopyFloats(cudaStream_t stream, size_t count, const float* from, float* to) {
  if (from == to || count == 0) return;
  Check(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
