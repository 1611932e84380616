// A thread for whose end several may wait.
#ifndef MILLRACE_COORDINATOR_JOBS_SHARED_THREAD_H_
#define MILLRACE_COORDINATOR_JOBS_SHARED_THREAD_H_

#include <functional>
#include <thread>
#include <utility>

#include "common/mutex.h"

namespace millrace::coordinator {

// Thread-safe. REQUIRES: a Join before it goes.
class SharedThread {
 public:
  explicit SharedThread(std::function<void()> run) : thread_(std::move(run)) {}

  // Blocks until the thread has ended, which it must have been told to. Again: returns at once.
  void Join() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  Mutex mutex_;  // One joins.
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_SHARED_THREAD_H_
