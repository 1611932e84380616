// Values and batches on their way to a GPU.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_
#define MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace millrace::worker {

// Copies to one GPU, in the order of one stream. What arrives while a backward pass runs is held
// back until the GPU has said that the pass has computed, and reads what the copies overwrite no
// more: its gradients may still be leaving then. Another stream could wait for an event that the
// pass's graph records; but not every driver is known to let it wait for the last launch, and not
// the one before. Thread-safe; throws what a copy throws.
class CopiesIn {
 public:
  // Enqueues a copy of `bytes`, which does not block. Called by one thread at a time.
  using Enqueue = std::function<void(void* device, const void* host, size_t bytes)>;

  // `computed`: whether the pass that was launched last has computed; asked by any thread between
  // Hold and what ends that.
  CopiesIn(Enqueue enqueue, std::function<bool()> computed)
      : enqueue_(std::move(enqueue)), computed_(std::move(computed)) {}

  // A copy of `bytes`, after all that were added before. Does not block. What is held back is read
  // as it is when it is enqueued.
  void Add(void* device, const void* host, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Copies are held back from now on.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether copies are held back that need not be.
  bool CanRelease() const ABSL_LOCKS_EXCLUDED(mutex_);
  // If the pass has computed, enqueues what is held back, and from now on what is added; false: it
  // has not. After an exception what was not enqueued is still held back.
  bool TryRelease() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, whatever the pass has done. REQUIRES: the stream waits for it.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Copy {
    char* device;
    const char* host;
    size_t bytes;
  };
  void EnqueueHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Enqueue enqueue_;
  const std::function<bool()> computed_;
  mutable Mutex mutex_;  // Guards what follows, and is held while copies are enqueued.
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Copy> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_
