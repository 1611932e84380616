// Owners of what CUDA's runtime makes.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_HANDLES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_HANDLES_H_

#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

namespace millrace::cuda {

template <typename Handle, cudaError_t (*kDestroy)(Handle)>
struct DestroyHandle {
  void operator()(std::remove_pointer_t<Handle>* handle) const { kDestroy(handle); }
};
template <typename Handle, cudaError_t (*kDestroy)(Handle)>
using HandleOwner = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyHandle<Handle, kDestroy>>;
using StreamOwner = HandleOwner<cudaStream_t, cudaStreamDestroy>;

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_HANDLES_H_
