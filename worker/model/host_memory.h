#ifndef MILLRACE_WORKER_MODEL_HOST_MEMORY_H_
#define MILLRACE_WORKER_MODEL_HOST_MEMORY_H_

#include <cstddef>

namespace millrace::worker {

// Memory of the host that a device reads and writes by itself. Thread-safe.
class HostMemory {
 public:
  virtual ~HostMemory() = default;

  // Of a cache line. What begins at multiples of it shares none.
  static constexpr size_t kAlignment = 64;

  // Uninitialised, aligned to kAlignment at least. Null: so much is not to be had. Blocks.
  virtual void* Allocate(size_t bytes) = 0;

  // REQUIRES: nothing that the device still does is to be seen there.
  virtual void Free(void* memory) noexcept = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_HOST_MEMORY_H_
