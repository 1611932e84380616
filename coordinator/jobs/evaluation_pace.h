// How long a worker is given for an evaluation.
#ifndef MILLRACE_COORDINATOR_JOBS_EVALUATION_PACE_H_
#define MILLRACE_COORDINATOR_JOBS_EVALUATION_PACE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace millrace::coordinator {

// Follows the job's evaluations: they are of the same examples, and so take about as long. A value
// type.
class EvaluationPace {
 public:
  // `most` for the first one, of which nobody knows how long it takes, and for the others at most.
  explicit EvaluationPace(absl::Duration most) : most_(most) {}

  // Four times the longest so far, 10 s at least; twice as long after each that was given up.
  absl::Duration Patience() const {
    if (longest_ == absl::ZeroDuration()) return most_;
    return std::min(most_, std::max(4 * longest_, absl::Seconds(10)) * factor_);
  }

  void Took(absl::Duration duration) {
    longest_ = std::max(longest_, duration);
    factor_ = 1;
  }

  void GaveUp() { factor_ = std::min(2 * factor_, kMostFactor); }

 private:
  static constexpr int kMostFactor = 1 << 20;

  const absl::Duration most_;
  absl::Duration longest_;
  int factor_ = 1;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_EVALUATION_PACE_H_
