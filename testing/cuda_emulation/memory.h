// Memory of the device, and pinned memory of the host.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_MEMORY_H_
#define MILLRACE_TESTING_CUDA_EMULATION_MEMORY_H_

#include <cstddef>
#include <map>

namespace cuda_emulation {

// Device memory stands between guard pages, with AddressSanitizer's poison on the rest of its first
// and last page. Only kernels and copies reach it: it is closed to the host otherwise, as on a GPU.
// New memory holds garbage. Not thread-safe.
class Memory {
 public:
  void set_limit(size_t bytes) { limit_ = bytes; }
  size_t limit() const { return limit_; }
  size_t used() const { return used_; }
  size_t allocations() const { return allocations_.size(); }
  size_t pinned_allocations() const { return pinned_.size(); }

  // Null: beyond the limit.
  void* Allocate(size_t bytes);
  // False: was not allocated. Stops the process where something was written around it.
  bool Free(void* memory);
  void* AllocatePinned(size_t bytes);
  bool FreePinned(void* memory);

  // Whether all of these bytes lie in one allocation. No bytes: at its end, too.
  bool OnDevice(const void* memory, size_t bytes) const;
  bool Pinned(const void* memory, size_t bytes) const;
  // Whether it lies in device memory, or at its end, at all.
  bool TouchesDevice(const void* memory) const;

  // While kernels and copies run.
  void Open();
  void Close();

 private:
  struct Allocation {
    char* pages;  // The first one, after the guard.
    size_t page_bytes;
    size_t bytes;
  };
  void FillEnds(const Allocation& allocation) const;
  void Protect(const Allocation& allocation, int protection) const;
  void CheckEdges(char* begin, const Allocation& allocation) const;

  size_t limit_ = size_t{1} << 30;
  size_t used_ = 0;
  bool open_ = false;
  std::map<char*, Allocation> allocations_;  // By where they begin.
  std::map<char*, size_t> pinned_;
};

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_MEMORY_H_
