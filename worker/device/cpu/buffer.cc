#include "worker/device/cpu/buffer.h"

#include <cstring>
#include <new>

namespace millrace::worker {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

CpuBuffer::CpuBuffer(size_t size) : size_(size) {
  const size_t bytes = (size * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes == 0) return;
  data_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 0, bytes);
}

}  // namespace millrace::worker
