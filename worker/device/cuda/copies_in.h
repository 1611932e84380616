// Values and batches on their way to a GPU.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_
#define MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace millrace::worker {

// Copies to one GPU, in the order of one stream. While a pass may still read what they overwrite
// they go ahead: to a second place on the GPU, from where all of them are moved once the pass is
// done. So the link is at work while the GPU computes, and moving takes a small part of the time
// that the link does. Thread-safe; throws what a copy throws.
class CopiesIn {
 public:
  // Enqueues a copy of `bytes`, which does not block. Called by one thread at a time.
  using Enqueue = std::function<void(void* to, const void* from, size_t bytes)>;

  // From the host to the device, and within the device.
  CopiesIn(Enqueue copy, Enqueue move) : copy_(std::move(copy)), move_(std::move(move)) {}

  // What goes ahead and belongs to these `bytes` of the device comes to `ahead` first. Each move
  // costs some microseconds, so neighbours in a MemoryLayout are moved at once, with what stands
  // between them. That may be older than what stands there already: it fills a piece up, or its own
  // copy is yet to come. `at_once`: whatever stands between two copies is of no use, and one move
  // takes all.
  void AddPlace(void* device, size_t bytes, void* ahead, bool at_once = false)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A copy of `bytes`, after all that were added before. Does not block. After an exception this
  // copy is not added.
  void Add(void* device, const void* host, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Copies `bytes` from `from` to `host`, and adds the copy from there to the device, in pieces:
  // the first ones are on their way before the last byte is on the host. Blocks as long as a
  // memcpy. After an exception the pieces before are added.
  void CopyAndAdd(const void* from, size_t bytes, void* host, void* device)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Copies go ahead from now on. REQUIRES: each that is added before the next MoveIn is within a
  // place.
  void GoAhead() ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves what went ahead, and lets copies go straight from now on. REQUIRES: the stream waits for
  // whatever reads what they overwrite. After an exception copies still go ahead.
  void MoveIn() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    char* device;
    size_t bytes;
    char* ahead;
    bool at_once;
  };
  struct Range {
    const Place* place;
    size_t begin;
    size_t end;
  };
  const Place* PlaceOf(char* device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CopyAhead(char* device, const void* host, size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Enqueue copy_;
  const Enqueue move_;
  // Guards what follows, and is held while copies are enqueued, so that they keep their order.
  // Taken after that of ArrivingValues.
  mutable Mutex mutex_;
  std::map<char*, Place> places_ ABSL_GUARDED_BY(mutex_);  // By where they begin on the device.
  bool goes_ahead_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Range> ahead_ ABSL_GUARDED_BY(mutex_);  // What went ahead.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_COPIES_IN_H_
