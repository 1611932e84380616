// What a job's runner is told by other threads, and where it waits.
#ifndef MILLRACE_COORDINATOR_JOBS_RUNNER_INBOX_H_
#define MILLRACE_COORDINATOR_JOBS_RUNNER_INBOX_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// Of `worker`, by its number in the registry.
struct EvaluationReport {
  uint64_t worker = 0;
  EvaluationResult result;
};

// Thread-safe.
class RunnerInbox {
 public:
  explicit RunnerInbox(Clock* clock) : clock_(clock) {}

  // Something has changed: look again.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    woken_ = true;
    changed_.SignalAll();
  }

  // The run must end with `status`, not OK. The first call counts.
  void Interrupt(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (interrupt_.ok()) interrupt_ = status;
    changed_.SignalAll();
  }

  void Add(EvaluationReport report) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    evaluations_.push_back(std::move(report));
    woken_ = true;
    changed_.SignalAll();
  }

  // Something for people, for the job's log: writing there blocks, which the caller must not.
  void AddNotice(std::string notice) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    notices_.push_back(std::move(notice));
    woken_ = true;
    changed_.SignalAll();
  }

  // OK, or what the run must end with.
  absl::Status interrupt() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return interrupt_;
  }

  // Returns when there was a Wake since the last call returned, at `deadline`, or with what
  // interrupted the run.
  absl::Status WaitUntil(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!woken_ && interrupt_.ok() && !clock_->WaitUntil(&changed_, &mutex_, deadline)) {
    }
    woken_ = false;
    return interrupt_;
  }

  // Returns the evaluation results that have come, once.
  std::vector<EvaluationReport> TakeEvaluations() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return std::exchange(evaluations_, {});
  }

  // Returns the notices that have come, once.
  std::vector<std::string> TakeNotices() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return std::exchange(notices_, {});
  }

 private:
  Clock* const clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status interrupt_ ABSL_GUARDED_BY(mutex_);
  std::vector<EvaluationReport> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> notices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_RUNNER_INBOX_H_
