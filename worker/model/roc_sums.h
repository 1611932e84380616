// What the area under the ROC curve needs of the batches of an evaluation.
#ifndef MILLRACE_WORKER_MODEL_ROC_SUMS_H_
#define MILLRACE_WORKER_MODEL_ROC_SUMS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

namespace millrace::worker {

// A value type.
class RocSums {
 public:
  // Exact, in memory for each score that is added.
  RocSums() = default;
  // Keras's approximation (keras.metrics.AUC, interpolation): thresholds evenly from 0 to 1 of the
  // probabilities, the first one a little below, the last one above. REQUIRES: at least 2.
  explicit RocSums(uint32_t num_thresholds)
      : negatives_above_(num_thresholds), positives_above_(num_thresholds) {}

  // A logit, and whether its label is positive.
  void Add(float score, bool positive);

  // None where there are no positive labels, or no others; NaN where a score is NaN.
  absl::optional<double> Area() const;

  // As they were added. Exact only.
  const std::vector<float>& scores() const { return scores_; }
  const std::vector<bool>& positives() const { return positives_; }

 private:
  absl::optional<double> AreaByThresholds() const;

  std::vector<float> scores_;
  std::vector<bool> positives_;

  // By thresholds: how many are above threshold i and not above the next one.
  std::vector<uint64_t> negatives_above_;
  std::vector<uint64_t> positives_above_;
  bool nan_ = false;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_ROC_SUMS_H_
