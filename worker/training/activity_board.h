// What a worker does now in a job, for people.
#ifndef MILLRACE_WORKER_TRAINING_ACTIVITY_BOARD_H_
#define MILLRACE_WORKER_TRAINING_ACTIVITY_BOARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"
#include "worker/parameters/parameter_client.h"

namespace millrace::worker {

// The job's thread does one thing at a time, while the oldest push of a step that it has computed
// is waited for. Thread-safe; no call blocks.
class ActivityBoard {
 public:
  ActivityBoard(std::string job_id, Clock* clock);

  // What the job's thread does from now on. `pull` may be null; it must live until another call.
  void Begin(Activity::Kind kind, uint64_t step = 0) ABSL_LOCKS_EXCLUDED(mutex_) {
    Begin(kind, step, /*version=*/0, /*pull=*/nullptr);
  }
  void Begin(Activity::Kind kind, uint64_t step, uint64_t version,
             const ParameterClient::StartedPull* pull) ABSL_LOCKS_EXCLUDED(mutex_);
  // It waits for pushes.
  void BeginNothing() ABSL_LOCKS_EXCLUDED(mutex_);

  // The push that is waited for, until EndPush.
  void BeginPush(uint64_t step, const ParameterClient::Push* push) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndPush() ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<Activity> Read() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Activity::Kind kind = Activity::IDLE;
    uint64_t step = 0;
    uint64_t version = 0;
    absl::Time since;
    const ParameterClient::StartedPull* pull = nullptr;
    const ParameterClient::Push* push = nullptr;
  };

  Activity Describe(const Entry& entry) const;

  const std::string job_id_;
  Clock* const clock_;

  mutable Mutex mutex_;  // Before the locks of pulls and pushes.
  absl::optional<Entry> main_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Entry> push_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_ACTIVITY_BOARD_H_
