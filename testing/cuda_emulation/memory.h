// Memory of the device, and pinned memory of the host.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_MEMORY_H_
#define MILLRACE_TESTING_CUDA_EMULATION_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "testing/cuda_emulation/control.h"

namespace cuda_emulation {

// The devices' memories stand between guard pages, with AddressSanitizer's poison on the rest of
// its first and last page. Only kernels and copies reach it: it is closed to the host otherwise, as
// on a GPU. New memory holds garbage. Not thread-safe.
class Memory {
 public:
  Memory() { set_limit(size_t{1} << 30); }

  void set_limit(size_t bytes) { limits_.fill(bytes); }
  void set_limit(int device, size_t bytes) { limits_.at(device) = bytes; }
  size_t limit(int device) const { return limits_[device]; }
  size_t used(int device) const { return used_[device]; }
  size_t used() const;  // Of all.
  size_t allocations() const { return allocations_.size(); }
  size_t pinned_allocations() const { return pinned_.size(); }

  // Null: beyond the device's limit.
  void* Allocate(int device, size_t bytes);
  // False: was not allocated. Stops the process where something was written around it.
  bool Free(void* memory);
  void* AllocatePinned(size_t bytes);
  bool FreePinned(void* memory);

  // Whether all of these bytes lie in one allocation. No bytes: at its end, too.
  bool OnDevice(const void* memory, size_t bytes) const;
  bool Pinned(const void* memory, size_t bytes) const;
  // Whether it lies in device memory, or at its end, at all.
  bool TouchesDevice(const void* memory) const;
  // Of which device it is; -1: of none.
  int DeviceOf(const void* memory) const;

  // While kernels of a device run: it is open, and no other.
  void OpenOnly(int device);
  // While something is copied: these are open. -1: none.
  void OpenBoth(int a, int b);
  void Close() { OpenAll(0); }

 private:
  struct Allocation {
    char* pages;  // The first one, after the guard.
    size_t page_bytes;
    size_t bytes;
    int device;
  };
  // Of each device a bit: whether it is open.
  void OpenAll(uint32_t devices);
  void FillEnds(const Allocation& allocation) const;
  void Protect(const Allocation& allocation, int protection) const;
  void CheckEdges(char* begin, const Allocation& allocation) const;

  std::array<size_t, kMostDevices> limits_;
  std::array<size_t, kMostDevices> used_ = {};
  uint32_t open_ = 0;
  std::map<char*, Allocation> allocations_;  // By where they begin.
  std::map<char*, size_t> pinned_;
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_MEMORY_H_
