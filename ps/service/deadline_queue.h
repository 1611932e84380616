// Calls at given times.
#ifndef MILLRACE_PS_SERVICE_DEADLINE_QUEUE_H_
#define MILLRACE_PS_SERVICE_DEADLINE_QUEUE_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::ps {

// Thread-safe. One thread makes the calls, so they must not block.
class DeadlineQueue {
 public:
  using Key = std::pair<absl::Time, uint64_t>;

  // `clock` must outlive it.
  explicit DeadlineQueue(Clock* clock);

  ~DeadlineQueue();

  // Forgets all calls that have not begun, now and from now on. Waits for the one under way.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `call` once, when the clock shows `when`.
  Key Add(absl::Time when, std::function<void()> call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets a call that has not begun.
  void Cancel(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;  // calls_ or stopping_
  absl::btree_map<Key, std::function<void()>> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_DEADLINE_QUEUE_H_
