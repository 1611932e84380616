// Something that is to be tried again a little later.
#ifndef MILLRACE_COORDINATOR_JOBS_LATE_CALL_H_
#define MILLRACE_COORDINATOR_JOBS_LATE_CALL_H_

#include <functional>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "coordinator/jobs/shared_thread.h"

namespace millrace::coordinator {

// Calls from a thread of its own, which is there before it is needed. Thread-safe.
class LateCall {
 public:
  // `call` may ask again. `clock` is not owned.
  LateCall(Clock* clock, absl::Duration pause, std::function<void()> call);
  // Stops.
  ~LateCall();

  // Has the call made once the pause is over; asking again before that changes nothing. Does not
  // block.
  void Ask() ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls no more. Blocks while a call is under way.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void CallInLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool AwaitTime() ABSL_LOCKS_EXCLUDED(mutex_);

  Clock* const clock_;
  const absl::Duration pause_;
  const std::function<void()> call_;

  Mutex mutex_;
  CondVar changed_;
  absl::Time at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // Of the next call.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  SharedThread thread_;  // Last: it uses the others.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_LATE_CALL_H_
