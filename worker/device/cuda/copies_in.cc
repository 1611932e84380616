#include "worker/device/cuda/copies_in.h"

#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"

namespace millrace::worker {
namespace {

// Written in some 100 us, and enqueued in some 5.
constexpr size_t kBytesAtOnce = size_t{1} << 20;

}  // namespace

void CopiesIn::Add(void* device, const void* host, size_t bytes, bool is_piece) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  auto* const to = static_cast<char*>(device);
  const auto* const from = static_cast<const char*>(host);
  if (holds_ && !computed_()) {
    if (!held_.empty() && is_piece && held_.back().IsPieceBefore(to, from)) {
      held_.back().bytes += bytes;
    } else {
      held_.push_back({to, from, bytes, is_piece});
    }
    return;
  }
  EnqueueHeld();
  enqueue_(to, from, bytes);
}

// Not pieces of Add's: what stands beside them may be of another allocation.
void CopiesIn::CopyAndAdd(const void* from, size_t bytes, void* host, void* device) {
  for (size_t begin = 0; begin < bytes; begin += kBytesAtOnce) {
    const size_t count = std::min(kBytesAtOnce, bytes - begin);
    char* const to = static_cast<char*>(host) + begin;
    std::memcpy(to, static_cast<const char*>(from) + begin, count);
    Add(static_cast<char*>(device) + begin, to, count);
  }
}

void CopiesIn::Hold() {
  MutexLock lock(&mutex_);
  holds_ = true;
}

bool CopiesIn::CanRelease() const {
  MutexLock lock(&mutex_);
  return holds_ && computed_();
}

void CopiesIn::Release() {
  MutexLock lock(&mutex_);
  EnqueueHeld();
}

void CopiesIn::EnqueueHeld() {
  size_t done = 0;
  const auto enqueued = absl::MakeCleanup([&] {
    mutex_.AssertHeld();
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(done));
  });
  for (; done < held_.size(); ++done) {
    enqueue_(held_[done].device, held_[done].host, held_[done].bytes);
  }
  holds_ = false;
}

}  // namespace millrace::worker
