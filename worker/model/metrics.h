// Metrics that need all examples at once.
#ifndef MILLRACE_WORKER_MODEL_METRICS_H_
#define MILLRACE_WORKER_MODEL_METRICS_H_

#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace millrace::worker {

// The exact area under the ROC curve: the share of pairs of a positive and a negative example in
// which the positive one has the higher score, ties counted half. None where there is no such pair;
// NaN where a score is NaN. REQUIRES: scores.size() == positives.size().
absl::optional<double> AreaUnderRocCurve(absl::Span<const float> scores,
                                         const std::vector<bool>& positives);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_METRICS_H_
