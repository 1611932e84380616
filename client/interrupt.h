// How the wish to stop reaches the command that runs.
#ifndef MILLRACE_CLIENT_INTERRUPT_H_
#define MILLRACE_CLIENT_INTERRUPT_H_

#include <functional>

#include "common/mutex.h"

namespace millrace::client {

// Thread-safe.
class Interrupt {
 public:
  // Says what Trigger() does while it lives. One at a time.
  class Action {
   public:
    // `action` is called at once, in this thread, if the interrupt came before.
    Action(Interrupt* interrupt, std::function<void()> action);
    // Waits for a call of the action that is under way.
    ~Action();
    Action(const Action&) = delete;
    Action& operator=(const Action&) = delete;

   private:
    Interrupt* const interrupt_;
  };

  // Remembers the interrupt and calls the action there is, in this thread, without a lock. Only the
  // first call does anything.
  void Trigger() ABSL_LOCKS_EXCLUDED(mutex_);

  bool triggered() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar action_ended_;
  bool triggered_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> action_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_INTERRUPT_H_
