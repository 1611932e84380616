// A thread for what takes its time: opening data, ending jobs.
#ifndef MILLRACE_WORKER_TRAINING_BACKGROUND_H_
#define MILLRACE_WORKER_TRAINING_BACKGROUND_H_

#include <map>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::worker {

// Runs tasks one after the other, in the order in which they come or become due. Thread-safe.
class Background {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // `clock` must outlive this object.
  explicit Background(Clock* clock);

  // Finishes the task under way; those that have not begun are destroyed without being run.
  ~Background();

  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Does not block.
  void Add(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Not before `due`.
  void AddAt(absl::Time due, Task task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until a task is due; none: time to stop.
  absl::optional<Task> Next() ABSL_LOCKS_EXCLUDED(mutex_);

  Clock* const clock_;
  Mutex mutex_;  // Guards what follows; not held while a task runs.
  CondVar changed_;
  std::multimap<absl::Time, Task> tasks_ ABSL_GUARDED_BY(mutex_);  // By when they are due.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: it starts when the rest is ready.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_BACKGROUND_H_
