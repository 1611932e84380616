// Gives memory that malloc keeps back to the system.
#ifndef MILLRACE_COMMON_MEMORY_TRIMMER_H_
#define MILLRACE_COMMON_MEMORY_TRIMMER_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace millrace {

// What was freed between blocks that live goes back to the system only when somebody asks for it:
// a burst of a few gigabytes would be kept for good. Steady traffic uses what it frees again, and
// pages that are given back cost time when they are. So it asks when more than kKeptBytes were free
// for a whole minute, once for that minute. Not thread-safe.
class MemoryTrimmer {
 public:
  static constexpr uint64_t kKeptBytes = uint64_t{128} << 20;

  // `free_bytes`: what malloc keeps; `trim`: gives it back. By default glibc's.
  explicit MemoryTrimmer(std::function<uint64_t()> free_bytes = MallocFreeBytes,
                         std::function<void()> trim = TrimMalloc);

  // To be called now and then, on a thread on which nobody waits: it may take some milliseconds.
  void Look(absl::Time now);

  // 0, and nothing, where the C library is another one.
  static uint64_t MallocFreeBytes();
  static void TrimMalloc();

 private:
  const std::function<uint64_t()> free_bytes_;
  const std::function<void()> trim_;
  absl::Time next_look_ = absl::InfinitePast();
  absl::Time much_since_ = absl::InfiniteFuture();  // That much is free.
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_MEMORY_TRIMMER_H_
