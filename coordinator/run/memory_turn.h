// Which of the jobs that wait for memory keeps the shards that it could make.
#ifndef MILLRACE_COORDINATOR_RUN_MEMORY_TURN_H_
#define MILLRACE_COORDINATOR_RUN_MEMORY_TURN_H_

#include <string>

#include "common/mutex.h"

namespace millrace::coordinator {

// One at a time: two jobs that each have a part of the memory that the other needs would wait for
// each other for ever. Thread-safe.
class MemoryTurn {
 public:
  // Whether the job has the turn, which it gets where nobody has it.
  bool Take(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (holder_.empty()) holder_ = job_id;
    return holder_ == job_id;
  }

  // Does nothing where the job does not have it.
  void GiveBack(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (holder_ == job_id) holder_.clear();
  }

 private:
  Mutex mutex_;
  std::string holder_ ABSL_GUARDED_BY(mutex_);  // Empty: nobody.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_MEMORY_TURN_H_
