#include "common/memory_trimmer.h"

#include <malloc.h>

#include <utility>

namespace millrace {
namespace {

// A look takes malloc's locks for a moment.
constexpr absl::Duration kLookPeriod = absl::Seconds(10);
constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

MemoryTrimmer::MemoryTrimmer(std::function<uint64_t()> free_bytes, std::function<void()> trim)
    : free_bytes_(std::move(free_bytes)), trim_(std::move(trim)) {}

void MemoryTrimmer::Look(absl::Time now) {
  if (now < next_look_) return;
  next_look_ = now + kLookPeriod;
  if (free_bytes_() <= kKeptBytes) {
    much_since_ = absl::InfiniteFuture();
    return;
  }
  if (much_since_ == absl::InfiniteFuture()) much_since_ = now;
  if (now < much_since_ + kPatience) return;
  trim_();
  much_since_ = absl::InfiniteFuture();
}

uint64_t MemoryTrimmer::MallocFreeBytes() {
#ifdef __GLIBC__
  return mallinfo2().fordblks;
#else
  return 0;
#endif
}

void MemoryTrimmer::TrimMalloc() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace millrace
