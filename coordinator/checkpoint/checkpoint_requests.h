// Checkpoints that somebody asks for, handed to the runner of the job.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_REQUESTS_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_REQUESTS_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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
  // not block. Empty: nobody waits for it.
  std::function<void(const absl::StatusOr<CheckpointInfo>&)> done;
};

// Thread-safe.
class CheckpointRequests {
 public:
  // So many may wait; of those who want to stop any number.
  static constexpr size_t kMost = 256;

  // After Close, and where too many wait (RESOURCE_EXHAUSTED): answered at once. All for which
  // nobody waits are one.
  void Add(CheckpointRequest request) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::Status status = Take(request);
    if (!status.ok() && request.done) request.done(status);
  }

  std::vector<CheckpointRequest> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return std::exchange(requests_, {});
  }

  // Of those who want to stop.
  std::vector<CheckpointRequest> TakeUrgent() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto urgent =
        std::stable_partition(requests_.begin(), requests_.end(),
                              [](const CheckpointRequest& request) { return !request.urgent; });
    std::vector<CheckpointRequest> taken(std::make_move_iterator(urgent),
                                         std::make_move_iterator(requests_.end()));
    requests_.erase(urgent, requests_.end());
    return taken;
  }

  // Answers those that are left, and all later ones, with `status`, not OK. The first call counts.
  void Close(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<CheckpointRequest> left;
    {
      MutexLock lock(&mutex_);
      if (closed_.ok()) closed_ = status;
      left.swap(requests_);
    }
    for (const CheckpointRequest& request : left) {
      if (request.done) request.done(status);
    }
  }

 private:
  absl::Status Take(CheckpointRequest& request) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    const bool is_alone = request.done || request.urgent;
    if (!is_alone && !requests_.empty()) return absl::OkStatus();  // Another one does as well.
    if (requests_.size() >= kMost && !request.urgent) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kMost, " requests for a checkpoint of the job wait already; try again"));
    }
    requests_.push_back(std::move(request));
    return absl::OkStatus();
  }

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
