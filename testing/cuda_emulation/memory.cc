#include "testing/cuda_emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>

#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/language.h"
#include "testing/cuda_emulation/shared_memory.h"

#ifdef CUDA_EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) static_cast<void>(bytes)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) static_cast<void>(bytes)
#endif

namespace cuda_emulation {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kAlignment = 256;
constexpr size_t kFilledBytes = 4 << 20;

size_t RoundedUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

template <typename Allocations>
auto Containing(Allocations& allocations, const void* memory) {
  auto it = allocations.upper_bound(static_cast<char*>(const_cast<void*>(memory)));
  return it == allocations.begin() ? allocations.end() : --it;
}

}  // namespace

// The middle of large memory is left to the system, which has 0 there and no pages until it is
// used: changing the protection of pages takes time.
void Memory::FillEnds(const Allocation& allocation) const {
  const size_t first = std::min(allocation.page_bytes, kFilledBytes);
  FillWithGarbage(allocation.pages, first);
  FillWithGarbage(allocation.pages + allocation.page_bytes - kPageBytes, kPageBytes);
}

// Stands as far back in its pages as its alignment lets it.
void* Memory::Allocate(int device, size_t bytes) {
  if (bytes > limits_[device] || used_[device] > limits_[device] - bytes) return nullptr;
  Allocation allocation;
  allocation.device = device;
  allocation.bytes = bytes;
  allocation.page_bytes = RoundedUp(bytes, kPageBytes);
  void* mapped = mmap(nullptr, allocation.page_bytes + 2 * kPageBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) Fail("no memory for " + std::to_string(bytes) + " bytes of the device");
  allocation.pages = static_cast<char*>(mapped) + kPageBytes;
  char* begin = allocation.pages + allocation.page_bytes - RoundedUp(bytes, kAlignment);
  Protect(allocation, PROT_READ | PROT_WRITE);
  FillEnds(allocation);
  ASAN_POISON_MEMORY_REGION(allocation.pages, allocation.page_bytes);
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  if ((open_ >> device & 1) == 0) Protect(allocation, PROT_NONE);
  allocations_[begin] = allocation;
  used_[device] += bytes;
  return begin;
}

// The addresses are not used again: who still has one is found.
bool Memory::Free(void* memory) {
  const auto it = allocations_.find(static_cast<char*>(memory));
  if (it == allocations_.end()) return false;
  const Allocation& allocation = it->second;
  CheckEdges(it->first, allocation);
  ASAN_UNPOISON_MEMORY_REGION(allocation.pages, allocation.page_bytes);
  mmap(allocation.pages, allocation.page_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  used_[allocation.device] -= allocation.bytes;
  allocations_.erase(it);
  return true;
}

void Memory::CheckEdges(char* begin, const Allocation& allocation) const {
#ifndef CUDA_EMULATION_ASAN  // Which finds the write itself.
  Protect(allocation, PROT_READ);
  const char* garbage = reinterpret_cast<const char*>(&kGarbage);
  for (size_t i = 0; i < allocation.page_bytes; ++i) {
    const char* at = allocation.pages + i;
    if (at == begin) i += allocation.bytes;
    if (i >= allocation.page_bytes) break;
    at = allocation.pages + i;
    if (*at != garbage[i % sizeof(kGarbage)]) {
      Fail("device memory of " + std::to_string(allocation.bytes) + " bytes was written to " +
           (at < begin ? "before its begin" : "beyond its end"));
    }
  }
#else
  static_cast<void>(begin);
  static_cast<void>(allocation);
#endif
}

void* Memory::AllocatePinned(size_t bytes) {
  void* memory = ::operator new (bytes, std::align_val_t{kAlignment});
  FillWithGarbage(memory, bytes);
  pinned_[static_cast<char*>(memory)] = bytes;
  return memory;
}

bool Memory::FreePinned(void* memory) {
  if (pinned_.erase(static_cast<char*>(memory)) == 0) return false;
  ::operator delete (memory, std::align_val_t{kAlignment});
  return true;
}

bool Memory::OnDevice(const void* memory, size_t bytes) const {
  const auto it = Containing(allocations_, memory);
  if (it == allocations_.end()) return false;
  const size_t offset = static_cast<const char*>(memory) - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset;
}

bool Memory::TouchesDevice(const void* memory) const { return OnDevice(memory, 0); }

bool Memory::Pinned(const void* memory, size_t bytes) const {
  const auto it = Containing(pinned_, memory);
  if (it == pinned_.end()) return false;
  const size_t offset = static_cast<const char*>(memory) - it->first;
  return offset <= it->second && bytes <= it->second - offset;
}

int Memory::DeviceOf(const void* memory) const {
  return TouchesDevice(memory) ? Containing(allocations_, memory)->second.device : -1;
}

size_t Memory::used() const { return std::accumulate(used_.begin(), used_.end(), size_t{0}); }

void Memory::OpenAll(uint32_t devices) {
  const uint32_t changed = open_ ^ devices;
  open_ = devices;
  if (changed == 0) return;
  for (const auto& [begin, allocation] : allocations_) {
    if ((changed >> allocation.device & 1) == 0) continue;
    const bool open = (devices >> allocation.device & 1) != 0;
    Protect(allocation, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

void Memory::OpenOnly(int device) { OpenAll(uint32_t{1} << device); }

void Memory::OpenBoth(int a, int b) {
  uint32_t devices = open_;
  for (const int device : {a, b}) {
    if (device >= 0) devices |= uint32_t{1} << device;
  }
  OpenAll(devices);
}

void Memory::Protect(const Allocation& allocation, int protection) const {
  if (mprotect(allocation.pages, allocation.page_bytes, protection) == 0) return;
  std::perror("cuda_emulation: mprotect");
  std::abort();
}

}  // namespace cuda_emulation
