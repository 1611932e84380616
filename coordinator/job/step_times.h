// What the time of a job's steps went into.
#ifndef MILLRACE_COORDINATOR_JOB_STEP_TIMES_H_
#define MILLRACE_COORDINATOR_JOB_STEP_TIMES_H_

#include <cstdint>

#include "common/mutex.h"
#include "protos/events.pb.h"

namespace millrace::coordinator {

// Over some steps. A value type.
struct StepTimeSum {
  StepTimes times;
  uint64_t steps = 0;

  // Nothing is added where `step` has no times, or what is none (anybody may have sent it).
  void Add(const StepTimes& step);
  void Add(const StepTimeSum& other);
  // Of one step. REQUIRES: steps >= 1.
  StepTimes Mean() const;
};

// Gathers the times of steps until somebody takes their sum. Thread-safe.
class StepTimeGatherer {
 public:
  void Add(const StepTimes& step) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of the steps since the last call.
  StepTimeSum Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  StepTimeSum sum_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_STEP_TIMES_H_
