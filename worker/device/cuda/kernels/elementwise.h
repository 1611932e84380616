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

// y = function(a, b); y may be a or b.
template <typename F>
__global__ void ApplyTwoKernel(F function, size_t count, const float* a, const float* b, float* y) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) y[i] = function(a[i], b[i]);
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
MILLRACE_DEVICE void ApplyTwoByFours(F function, size_t count, const float* a, const float* b,
                                     float* y) {
  const size_t fours = count / 4;
  for (size_t i = FirstElement(); i < fours; i += ElementStride()) {
    const FourFloats first = reinterpret_cast<const FourFloats*>(a)[i];
    FourFloats four = reinterpret_cast<const FourFloats*>(b)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) four.values[k] = function(first.values[k], four.values[k]);
    reinterpret_cast<FourFloats*>(y)[i] = four;
  }
  const size_t last = 4 * fours + FirstElement();
  if (last < count) y[last] = function(a[last], b[last]);
}

template <typename F>
__global__ void ApplyTwoFoursKernel(F function, size_t count, const float* a, const float* b,
                                    float* y) {
  ApplyTwoByFours(function, count, a, b, y);
}

template <typename F>
void Apply(cudaStream_t stream, F function, size_t count, const float* x, float* y) {
  if (count == 0) return;
  const bool by_fours = AlignedForFours(x, y);
  Launch(stream, BlocksFor(by_fours ? count / 4 : count), kThreads,
         by_fours ? ApplyFoursKernel<F> : ApplyKernel<F>, function, count, x, y);
}

template <typename F>
void ApplyTwo(cudaStream_t stream, F function, size_t count, const float* a, const float* b,
              float* y) {
  if (count == 0) return;
  const bool by_fours = AlignedForFours(a, b, y);
  Launch(stream, BlocksFor(by_fours ? count / 4 : count), kThreads,
         by_fours ? ApplyTwoFoursKernel<F> : ApplyTwoKernel<F>, function, count, a, b, y);
}

// dx = gradient(value, dy); dx may be dy.
template <typename F>
void ApplyGradient(cudaStream_t stream, F gradient, size_t count, const float* values,
                   const float* dy, float* dx) {
  ApplyTwo(stream, gradient, count, values, dy, dx);
}

// Identity where `to` is another place.
inline void CopyFloats(cudaStream_t stream, size_t count, const float* from, float* to) {
  if (from == to || count == 0) return;
  Check(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync");
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
