#include "worker/device/cuda/copies_in.h"

#include "absl/cleanup/cleanup.h"

namespace millrace::worker {

// Neighbours, as the pieces of a large variable, become one copy.
void CopiesIn::Add(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  auto* const to = static_cast<char*>(device);
  const auto* const from = static_cast<const char*>(host);
  if (holds_ && !computed_()) {
    if (!held_.empty() && held_.back().device + held_.back().bytes == to &&
        held_.back().host + held_.back().bytes == from) {
      held_.back().bytes += bytes;
    } else {
      held_.push_back({to, from, bytes});
    }
    return;
  }
  EnqueueHeld();
  enqueue_(to, from, bytes);
}

void CopiesIn::Hold() {
  MutexLock lock(&mutex_);
  holds_ = true;
}

bool CopiesIn::CanRelease() const {
  MutexLock lock(&mutex_);
  return holds_ && computed_();
}

bool CopiesIn::TryRelease() {
  MutexLock lock(&mutex_);
  if (holds_ && !computed_()) return false;
  EnqueueHeld();
  return true;
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
