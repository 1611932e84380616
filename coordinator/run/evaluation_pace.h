// How long a worker is given for an evaluation.
#ifndef MILLRACE_COORDINATOR_RUN_EVALUATION_PACE_H_
#define MILLRACE_COORDINATOR_RUN_EVALUATION_PACE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace millrace::coordinator {

// Follows the job's evaluations: they are of the same examples, and so take about as long. Patience
// that is too short costs another worker's time, and nothing else: whichever answers first counts.
// A value type.
class EvaluationPace {
 public:
  // Four times the longest so far, 10 s at least; a minute for the first one, of which nobody knows
  // how long it takes. Twice as long after each that was given up.
  absl::Duration Patience() const {
    const absl::Duration usual = longest_ == absl::ZeroDuration()
                                     ? absl::Minutes(1)
                                     : std::max(4 * longest_, absl::Seconds(10));
    return usual * factor_;
  }

  void Took(absl::Duration duration) {
    longest_ = std::max(longest_, duration);
    factor_ = 1;
  }

  void GaveUp() { factor_ = std::min(2 * factor_, kMostFactor); }

 private:
  static constexpr int kMostFactor = 1 << 20;

  absl::Duration longest_;
  int factor_ = 1;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_EVALUATION_PACE_H_
