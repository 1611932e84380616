#include "worker/device/cuda/cuda_host_memory.h"

#include <utility>

#include "glog/logging.h"

namespace millrace::worker {

CudaHostMemory::CudaHostMemory(cuda::Library* library, int index, bool several,
                               std::shared_ptr<DeviceState> state)
    : library_(library), index_(index), state_(std::move(state)) {
  if (several) state_->AddListener([kept = kept_](const absl::Status&) { *kept = true; });
}

// Whether a device is lost is told by the next step, which needs more of it.
void* CudaHostMemory::Allocate(size_t bytes) {
  if (state_->hangs()) return nullptr;
  const DeviceState::Call call(state_.get(), "takes pinned memory", state_->making_timeout());
  try {
    return library_->AllocatePinned(index_, bytes);
  } catch (const cuda::Error& error) {
    LOG(WARNING) << "no pinned memory for gradients: " << error.what();
    return nullptr;
  }
}

void CudaHostMemory::Free(void* memory) noexcept {
  if (state_->hangs() || *kept_) return;
  const DeviceState::Call call(state_.get(), "gives pinned memory back", state_->making_timeout());
  library_->FreePinned(index_, memory);
}

}  // namespace millrace::worker
