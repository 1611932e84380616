// Pushes on their way, while their worker computes the next steps.
#ifndef MILLRACE_WORKER_TRAINING_PUSH_FINISHER_H_
#define MILLRACE_WORKER_TRAINING_PUSH_FINISHER_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/start_thread.h"

namespace millrace::worker {

// Finishes steps in a thread of its own, one after the other in the order in which they come: a
// lease's steps are told of in order, and its first failure before any other. Thread-safe.
class PushFinisher {
 public:
  // Waits for a step's push and tells of it; or tells why there is none.
  using Finish = absl::AnyInvocable<void() &&>;

  // At most `capacity` (at least 1) steps are waited for. RESOURCE_EXHAUSTED: the system has no
  // thread left.
  static absl::StatusOr<std::unique_ptr<PushFinisher>> Start(
      size_t capacity, const ThreadStarter& start_thread = StartThread);

  // Drains.
  ~PushFinisher();

  PushFinisher(const PushFinisher&) = delete;
  PushFinisher& operator=(const PushFinisher&) = delete;

  // Blocks while there are `capacity` steps already: as long as the oldest one's push may take.
  void Add(Finish finish) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until all that was added is finished.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit PushFinisher(size_t capacity);

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t capacity_;
  Mutex mutex_;  // Guards what follows; not held while a step is finished.
  CondVar changed_;
  std::deque<Finish> steps_ ABSL_GUARDED_BY(mutex_);  // The first is being finished.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Started when the rest is ready.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_PUSH_FINISHER_H_
