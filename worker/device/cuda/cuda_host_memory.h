#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_HOST_MEMORY_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_HOST_MEMORY_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "worker/device/cuda/device_state.h"
#include "worker/device/cuda/library.h"
#include "worker/model/host_memory.h"

namespace millrace::worker {

// Pinned memory for all GPUs, which may outlive models and devices.
class CudaHostMemory final : public HostMemory {
 public:
  // `index`: of the GPU whose state it is. `library` must outlive it.
  CudaHostMemory(cuda::Library* library, int index, std::shared_ptr<DeviceState> state)
      : library_(library), index_(index), state_(std::move(state)) {}

  void* Allocate(size_t bytes) override;
  // Keeps what a device that does not answer might still write to: giving it back would wait for
  // ever.
  void Free(void* memory) noexcept override;

 private:
  cuda::Library* const library_;
  const int index_;
  const std::shared_ptr<DeviceState> state_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_HOST_MEMORY_H_
