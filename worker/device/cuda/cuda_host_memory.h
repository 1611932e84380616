#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_HOST_MEMORY_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_HOST_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "worker/device/cuda/device_state.h"
#include "worker/device/cuda/library.h"
#include "worker/model/host_memory.h"

namespace millrace::worker {

// Pinned memory for all GPUs, which may outlive models and devices. Of several GPUs that share
// batches, where one is lost the others may still write to it.
class CudaHostMemory final : public HostMemory {
 public:
  // `index`: of the GPU, or of one of `several`, whose state it is. `library` must outlive it.
  CudaHostMemory(cuda::Library* library, int index, bool several,
                 std::shared_ptr<DeviceState> state);

  void* Allocate(size_t bytes) override;
  // Keeps what a device that does not answer might still write to: giving it back would wait for
  // ever. So it does where one of several GPUs is lost.
  void Free(void* memory) noexcept override;

 private:
  cuda::Library* const library_;
  const int index_;
  const std::shared_ptr<DeviceState> state_;
  const std::shared_ptr<std::atomic<bool>> kept_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_HOST_MEMORY_H_
