// How much time workers spend on the steps of a job, compared with each other. Pure.
#ifndef MILLRACE_COORDINATOR_DISPATCH_WORKER_PACE_H_
#define MILLRACE_COORDINATOR_DISPATCH_WORKER_PACE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "protos/cluster.pb.h"

namespace millrace::coordinator {

// What a worker itself spends on a step: not waiting for others, which a pull in synchronous mode
// mostly is. Nothing: the worker does not say, or no sense.
absl::optional<absl::Duration> OwnTime(const StepTimes& times, bool synchronous);

// A mean over the steps of late. A value type.
class WorkerPace {
 public:
  void Add(absl::Duration step);

  // Of so few steps nothing is said: the first ones touch memory for the first time and make
  // connections, which takes many times as long as a short step.
  bool known() const {
    return steps_ >= kManySteps || (steps_ >= kFewSteps && spent_ >= kLongTime);
  }
  // REQUIRES: known().
  absl::Duration mean() const { return mean_; }

 private:
  static constexpr uint64_t kFewSteps = 3;
  static constexpr uint64_t kManySteps = 10;
  static constexpr absl::Duration kLongTime = absl::Seconds(5);
  uint64_t steps_ = 0;
  absl::Duration spent_;  // On these.
  absl::Duration mean_;
};

// Each one's mean as a multiple of the median (of an even number, the lower one of the middle); 0
// where it is not known.
std::vector<double> SlownessOf(const std::vector<WorkerPace>& paces);

// A worker that is slower than this gets fewer steps; than that, people are told.
inline constexpr double kSlow = 1.5;
inline constexpr double kVerySlow = 2.0;

// A lease's steps for a worker that is so slow, where others get `steps`. At least 1.
uint64_t StepsForSlowness(uint64_t steps, double slowness);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_DISPATCH_WORKER_PACE_H_
