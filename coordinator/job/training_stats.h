// Sums over the training batches since the Progress event before.
#ifndef MILLRACE_COORDINATOR_JOB_TRAINING_STATS_H_
#define MILLRACE_COORDINATOR_JOB_TRAINING_STATS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "protos/cluster.pb.h"
#include "protos/events.pb.h"
#include "protos/output.pb.h"

namespace millrace::coordinator {

// Thread-safe.
class TrainingStats {
 public:
  // A step that was not done before. Losses and accuracies that are no number, or too large to be
  // added, are left out.
  void Add(const StepResult& result) ABSL_LOCKS_EXCLUDED(mutex_);

  // The event's rate and metrics, for the time from the last call (or Restart) to `now`; begins
  // anew. Nothing where no step was added.
  absl::optional<Progress> Take(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps count from here on.
  void Restart(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Sums {
    absl::Time since = absl::UnixEpoch();
    uint64_t steps = 0;
    double examples = 0;
    double loss = 0;
    double loss_examples = 0;
    double accuracy = 0;
    double accuracy_examples = 0;  // Of the steps that tell the accuracy.
    std::map<std::string, MetricSum> others = {};
  };

  Mutex mutex_;
  Sums sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_TRAINING_STATS_H_
