// Checkpoints that somebody asks for, handed to the runner of the job.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_REQUESTS_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_REQUESTS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

struct CheckpointRequest {
  std::string cause;  // "a client asked for it".
  // Somebody waits with stopping: a state that is a little older will do.
  bool urgent = false;
  // Called once, on some thread, with the checkpoint that was written, or why there is none; must
  // not block.
  std::function<void(const absl::StatusOr<CheckpointInfo>&)> done;
};

// Thread-safe.
class CheckpointRequests {
 public:
  // After Close: answered at once.
  void Add(CheckpointRequest request) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::Status closed;
    {
      MutexLock lock(&mutex_);
      closed = closed_;
      if (closed.ok()) requests_.push_back(std::move(request));
    }
    if (!closed.ok()) request.done(closed);
  }

  std::vector<CheckpointRequest> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return std::exchange(requests_, {});
  }

  // Answers those that are left, and all later ones, with `status`, not OK. The first call counts.
  void Close(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<CheckpointRequest> left;
    {
      MutexLock lock(&mutex_);
      if (closed_.ok()) closed_ = status;
      left.swap(requests_);
    }
    for (const CheckpointRequest& request : left) request.done(status);
  }

 private:
  Mutex mutex_;
  std::vector<CheckpointRequest> requests_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

// What becomes of a request, for who waits for it. Thread-safe; shared with the request.
class CheckpointOutcome {
 public:
  void Set(const absl::StatusOr<CheckpointInfo>& result) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (!result_) result_ = result;
    set_.SignalAll();
  }

  // Waits `timeout` of the machine's clock at most; nothing: it is not known by then.
  absl::optional<absl::StatusOr<CheckpointInfo>> AwaitFor(absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::Time deadline = Clock::Real()->Now() + timeout;
    MutexLock lock(&mutex_);
    while (!result_ && !Clock::Real()->WaitUntil(&set_, &mutex_, deadline)) {
    }
    return result_;
  }

 private:
  Mutex mutex_;
  CondVar set_;
  absl::optional<absl::StatusOr<CheckpointInfo>> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_REQUESTS_H_
