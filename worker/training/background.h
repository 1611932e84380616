// Threads for what takes its time: opening data, ending jobs.
#ifndef MILLRACE_WORKER_TRAINING_BACKGROUND_H_
#define MILLRACE_WORKER_TRAINING_BACKGROUND_H_

#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::worker {

// Runs tasks in the order in which they come or become due: one after the other, but that one which
// has taken kPatience does not hold up those after it any more. Up to kThreads - 1 tasks that do
// not end (a file system that does not answer) leave a thread for the others. Thread-safe.
class Background {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  static constexpr absl::Duration kPatience = absl::Seconds(20);
  static constexpr int kThreads = 4;

  // `clock` must outlive this object.
  explicit Background(Clock* clock);

  // Finishes the tasks under way; those that have not begun are destroyed without being run.
  ~Background();

  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Does not block.
  void Add(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Not before `due`.
  void AddAt(absl::Time due, Task task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  struct Begun {
    Task task;
    absl::Time at;
  };

  // Blocks until a task is due and may begin; none: time to stop.
  absl::optional<Begun> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  // When the first task may begin.
  absl::Time NextAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock* const clock_;
  Mutex mutex_;  // Guards what follows; not held while a task runs.
  CondVar changed_;
  std::multimap<absl::Time, Task> tasks_ ABSL_GUARDED_BY(mutex_);  // By when they are due.
  std::multiset<absl::Time> begun_ ABSL_GUARDED_BY(mutex_);        // When those under way did.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // Last: they start when the rest is ready.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_BACKGROUND_H_
