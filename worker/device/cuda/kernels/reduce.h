// Sums and maxima over the threads of a block, and kernels that give each row of a matrix a block.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_REDUCE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_REDUCE_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

inline constexpr unsigned kWarp = 32;  // Threads.
inline constexpr unsigned kAllLanes = 0xffffffff;

// The larger one; of a number and NaN the number.
struct Larger {
  MILLRACE_DEVICE float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Sum {
  MILLRACE_DEVICE float operator()(float a, float b) const { return a + b; }
  MILLRACE_DEVICE double operator()(double a, double b) const { return a + b; }
};

// combine() of what the threads of a warp have: the same for all of them, in one order.
template <typename T, typename Combine>
MILLRACE_DEVICE T ReduceWarp(T value, Combine combine) {
  for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, apart));
  }
  return value;
}

// The same for a block of kThreads or fewer, whole warps. All of its threads call it; `shared` has
// room for a value of each warp, and may be used again and again.
template <typename T, typename Combine>
MILLRACE_DEVICE T ReduceBlock(T value, T* shared, Combine combine) {
  value = ReduceWarp(value, combine);
  if (blockDim.x == kWarp) return value;
  __syncthreads();  // What stood there is read.
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = shared[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) value = combine(value, shared[warp]);
  return value;
}

inline constexpr unsigned kMostWarps = kThreads / kWarp;

// Threads for each row, by its length alone: so are the orders of its sums.
inline unsigned ThreadsForRow(size_t columns) { return columns <= 256 ? kWarp : kThreads; }

// Enqueues a kernel whose blocks stride over rows; none: not launched.
template <typename... Parameters, typename... Arguments>
void LaunchForRows(cudaStream_t stream, size_t rows, size_t columns, void (*kernel)(Parameters...),
                   Arguments... arguments) {
  if (rows == 0 || columns == 0) return;
  Launch(stream, static_cast<unsigned>(std::min(rows, kMostBlocks)), ThreadsForRow(columns), kernel,
         arguments...);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_REDUCE_H_
