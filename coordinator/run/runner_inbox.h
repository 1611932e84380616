// What a job's runner is told by other threads, and where it waits. However much members say while
// the runner is busy, little of it is kept.
#ifndef MILLRACE_COORDINATOR_RUN_RUNNER_INBOX_H_
#define MILLRACE_COORDINATOR_RUN_RUNNER_INBOX_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// Of `worker`, by its number in the registry.
struct EvaluationReport {
  uint64_t worker = 0;
  EvaluationResult result;
  std::string name = {};  // The worker's, for messages.
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

  // Wakes the runner, once, when it is Told of a watermark of `step` or more.
  void WakeAt(uint64_t step) { wake_at_ = step; }
  void Tell(uint64_t watermark) ABSL_LOCKS_EXCLUDED(mutex_) {
    uint64_t wake_at = wake_at_;
    if (watermark < wake_at) return;
    if (wake_at_.compare_exchange_strong(wake_at, kNever)) Wake();
  }

  // The run must end with `status`, not OK. The first call counts.
  void Interrupt(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (interrupt_.ok()) interrupt_ = status;
    changed_.SignalAll();
  }

  // Replaces the worker's own one that was not taken, but for a result an error of the same
  // evaluation. REQUIRES: of the evaluation that is under way, and from a worker that was asked for
  // it (see Dispatcher::HasEvaluation).
  void SetEvaluation(EvaluationReport report) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    EvaluationReport& known = evaluations_[report.worker];
    const bool is_worse = known.result.evaluation_id() == report.result.evaluation_id() &&
                          known.result.code() == 0 && report.result.code() != 0;
    if (!is_worse) known = std::move(report);
    woken_ = true;
    changed_.SignalAll();
  }

  // Something for people, for the job's log: writing there blocks, which the caller must not. Where
  // too many have come since the last TakeNotices they are only counted.
  void AddNotice(std::string notice) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (notices_.size() < kMostNotices) {
      notices_.push_back(std::move(notice));
    } else {
      ++more_notices_;
    }
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

  // Returns what workers have answered, once; results before errors.
  std::vector<EvaluationReport> TakeEvaluations() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<EvaluationReport> reports;
    {
      MutexLock lock(&mutex_);
      for (auto& [worker, report] : evaluations_) reports.push_back(std::move(report));
      evaluations_.clear();
    }
    std::stable_partition(reports.begin(), reports.end(),
                          [](const EvaluationReport& report) { return report.result.code() == 0; });
    return reports;
  }

  // Returns the notices that have come, once.
  std::vector<std::string> TakeNotices() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    std::vector<std::string> notices = std::exchange(notices_, {});
    const size_t more = std::exchange(more_notices_, 0);
    if (more > 0) notices.push_back(absl::StrCat("and ", more, " more, which are left out"));
    return notices;
  }

 private:
  static constexpr size_t kMostNotices = 64;
  static constexpr uint64_t kNever = ~uint64_t{0};

  Clock* const clock_;
  std::atomic<uint64_t> wake_at_{kNever};
  mutable Mutex mutex_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status interrupt_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, EvaluationReport> evaluations_ ABSL_GUARDED_BY(mutex_);  // By worker.
  std::vector<std::string> notices_ ABSL_GUARDED_BY(mutex_);
  size_t more_notices_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_RUNNER_INBOX_H_
