#include "worker/device/cuda/mirrored_memory.h"

namespace millrace::worker {

MirroredMemory::MirroredMemory(cuda::Gpu* gpu, size_t mirrored_bytes, size_t device_bytes)
    : gpu_(gpu), device_(static_cast<char*>(gpu->Allocate(device_bytes))) {
  try {
    host_ = static_cast<char*>(gpu->AllocatePinned(mirrored_bytes));
  } catch (...) {
    gpu_->Free(device_);
    throw;
  }
}

MirroredMemory::~MirroredMemory() {
  gpu_->FreePinned(host_);
  gpu_->Free(device_);
}

void MirroredMemory::CopyIn(size_t offset, size_t bytes) const {
  if (bytes > 0) {
    gpu_->CopyIn(cuda::Stream::kCompute, device_ + offset, host_ + offset, bytes);
  }
}

void MirroredMemory::CopyOut(cuda::Stream stream, const void* from, size_t offset,
                             size_t bytes) const {
  if (bytes > 0) gpu_->CopyOut(stream, host_ + offset, from, bytes);
}

}  // namespace millrace::worker
