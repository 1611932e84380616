// Device memory, a part of which has a twin in pinned host memory, by which values come and go.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_MIRRORED_MEMORY_H_
#define MILLRACE_WORKER_DEVICE_CUDA_MIRRORED_MEMORY_H_

#include <cstddef>

#include "worker/device/cuda/library.h"

namespace millrace::worker {

// Where pieces of an allocation begin, each a multiple of `alignment` bytes after the one before.
class MemoryLayout {
 public:
  static constexpr size_t kAlignment = 256;

  // The least multiple of `alignment` that is not below `bytes`.
  static size_t AlignUp(size_t bytes, size_t alignment = kAlignment) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  explicit MemoryLayout(size_t alignment = kAlignment) : alignment_(alignment) {}

  // Returns where the new piece begins.
  size_t Add(size_t bytes) {
    const size_t begin = bytes_;
    bytes_ += AlignUp(bytes, alignment_);
    return begin;
  }

  size_t bytes() const { return bytes_; }

 private:
  const size_t alignment_;
  size_t bytes_ = 0;
};

// Pinned memory of the host. Used by one thread at a time.
class PinnedMemory {
 public:
  // `gpu` must outlive it. Blocks. Throws cuda::Error.
  PinnedMemory(cuda::Gpu* gpu, size_t bytes)
      : gpu_(gpu), data_(static_cast<char*>(gpu->AllocatePinned(bytes > 0 ? bytes : 1))) {}
  ~PinnedMemory() { gpu_->FreePinned(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* data() const { return data_; }

 private:
  cuda::Gpu* const gpu_;
  char* const data_;
};

// Two allocations: `device_bytes` on a GPU, and the twin of the first `mirrored_bytes` of them. An
// offset names a place in both. Used by one thread at a time.
class MirroredMemory {
 public:
  // `gpu` must outlive it. Blocks. Throws cuda::Error.
  MirroredMemory(cuda::Gpu* gpu, size_t mirrored_bytes, size_t device_bytes);
  ~MirroredMemory();
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  template <typename T>
  T* Device(size_t offset) const {
    return reinterpret_cast<T*>(device_ + offset);
  }
  // REQUIRES: the offset is in the mirrored part.
  template <typename T>
  T* Host(size_t offset) const {
    return reinterpret_cast<T*>(host_ + offset);
  }

  // Enqueues a copy of `bytes` from the place in host memory to the one on the device, on the
  // compute stream.
  void CopyIn(size_t offset, size_t bytes) const;
  // Likewise, from `from` on the device to the place in host memory.
  void CopyOut(cuda::Stream stream, const void* from, size_t offset, size_t bytes) const;

 private:
  cuda::Gpu* const gpu_;
  char* device_ = nullptr;
  char* host_ = nullptr;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_MIRRORED_MEMORY_H_
