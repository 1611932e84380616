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
// back until the GPU has told that the pass has computed and no longer reads what the copies
// overwrite; its last gradients may still be leaving. The stream could wait for an event in the
// pass's graph instead. But not every driver is known to record it anew as soon as the graph is
// launched, and a stream that took the record of the launch before would let values be overwritten
// while they are read. Thread-safe; throws what a copy throws.
class CopiesIn {
 public:
  // Enqueues a copy of `bytes`, which does not block. Called by one thread at a time.
  using Enqueue = std::function<void(void* device, const void* host, size_t bytes)>;

  // `computed`: whether the pass that was launched last has computed; asked by any thread between
  // Hold and Release.
  CopiesIn(Enqueue enqueue, std::function<bool()> computed)
      : enqueue_(std::move(enqueue)), computed_(std::move(computed)) {}

  // A copy of `bytes`, after all that were added before. Does not block. What is held back is read
  // when it runs. After an exception this copy is not added. Pieces are all of one allocation on
  // either side: those that are held back one after the other, and are neighbours, become one copy.
  void Add(void* device, const void* host, size_t bytes, bool is_piece = false)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Copies `bytes` from `from` to `host`, and adds the copy from there to the device, in pieces:
  // what is held back goes as soon as the pass has computed, not when the last byte is on the host.
  // Blocks as long as a memcpy. After an exception the pieces before are added.
  void CopyAndAdd(const void* from, size_t bytes, void* host, void* device)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Copies are held back from now on.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether copies are held back that need not be: the pass has computed.
  bool CanRelease() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Enqueues what is held back, and from now on what is added. REQUIRES: the pass has computed, or
  // the stream waits for it. After an exception what was not enqueued is still held back.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Copy {
    char* device;
    const char* host;
    size_t bytes;
    bool is_piece;

    bool IsPieceBefore(const char* next_device, const char* next_host) const {
      return is_piece && device + bytes == next_device && host + bytes == next_host;
    }
  };
  void EnqueueHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Enqueue enqueue_;
  const std::function<bool()> computed_;
  // Guards what follows, and is held while copies are enqueued, so that they keep their order.
  // Taken after that of ArrivingValues.
  mutable Mutex mutex_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Copy> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_
