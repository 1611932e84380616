#include "worker/device/cpu/buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace millrace::worker {
namespace {

constexpr size_t kAlignment = 64;

// From so many bytes on, memory is asked for in large pages, where the system gives them: kernels
// that go through it in long strides wait less for the places of small ones to be looked up.
constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kLeastBytesForLargePages = 2 * kLargePage;

// What does not fill a page of its own stays on small ones.
void UseLargePages(float* data, size_t bytes) {
  madvise(data, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
}

}  // namespace

CpuBuffer::CpuBuffer(size_t size) : size_(size) {
  const size_t bytes = (size * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes == 0) return;
  const bool large = bytes >= kLeastBytesForLargePages;
  void* memory = nullptr;
  // Unlike of aligned_alloc, nothing is asked of the size.
  if (posix_memalign(&memory, large ? kLargePage : kAlignment, bytes) != 0) throw std::bad_alloc();
  data_.reset(static_cast<float*>(memory));
  if (large) UseLargePages(data_.get(), bytes);
  std::memset(data_.get(), 0, bytes);
}

}  // namespace millrace::worker
