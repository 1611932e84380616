// How all kernels are launched and errors told. Files of this folder are compiled by nvcc for the
// CUDA library, and by the host's compiler for tests; both see CUDA's own names and nothing else.
// What they may use of CUDA is what testing/cuda_emulation has: shared memory is static, launches
// go through Launch, and of atomics there is atomicAdd of floats, for sums in any order
// (GpuOptions).
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_LAUNCH_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_LAUNCH_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace::cuda {

// Throws Error, which names `call`.
void Check(cudaError_t error, const char* call);

// CUDA's 13010 is "13.1".
std::string CudaVersion(int version);

// Threads of a block of a kernel that goes element by element.
inline constexpr unsigned kThreads = 256;

// Enough blocks to fill any GPU; kernels stride over the rest.
inline constexpr size_t kMostBlocks = 4096;
// The same of those that each sum up a part, which are added up afterwards.
inline constexpr int64_t kMostPartBlocks = 2048;

// Blocks for `count` elements.
inline unsigned BlocksFor(size_t count) {
  return static_cast<unsigned>(
      std::clamp<size_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
}

// Enqueues kernel(arguments...).
template <typename... Parameters, typename... Arguments>
void Launch(cudaStream_t stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
            Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  Check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "cudaLaunchKernelEx");
}

// The same for a kernel that strides over `count` elements; none: not launched.
template <typename... Parameters, typename... Arguments>
void LaunchFor(cudaStream_t stream, size_t count, void (*kernel)(Parameters...),
               Arguments... arguments) {
  if (count > 0) Launch(stream, BlocksFor(count), kThreads, kernel, arguments...);
}

#ifdef __CUDACC__
#define MILLRACE_DEVICE __device__ __forceinline__
#define MILLRACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MILLRACE_DEVICE inline
#define MILLRACE_HOST_DEVICE inline
#endif

// The first element of this thread, and how far it is to its next.
MILLRACE_DEVICE size_t FirstElement() { return size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
MILLRACE_DEVICE size_t ElementStride() { return size_t{gridDim.x} * blockDim.x; }

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_LAUNCH_H_
