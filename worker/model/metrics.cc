#include "worker/model/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "glog/logging.h"

namespace millrace::worker {

absl::optional<double> AreaUnderRocCurve(absl::Span<const float> scores,
                                         const std::vector<bool>& positives) {
  CHECK_EQ(scores.size(), positives.size());
  std::vector<std::pair<float, bool>> examples;
  examples.reserve(scores.size());
  uint64_t positive_count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return std::numeric_limits<double>::quiet_NaN();
    examples.emplace_back(scores[i], positives[i]);
    positive_count += positives[i] ? 1 : 0;
  }
  const uint64_t negative_count = scores.size() - positive_count;
  if (positive_count == 0 || negative_count == 0) return absl::nullopt;

  std::sort(examples.begin(), examples.end());
  uint64_t half_pairs = 0;  // Two for a pair in order, one for a tie.
  uint64_t negatives_below = 0;
  for (size_t begin = 0; begin < examples.size();) {
    uint64_t counts[2] = {0, 0};  // Of this score: negatives, positives.
    size_t end = begin;
    for (; end < examples.size() && examples[end].first == examples[begin].first; ++end) {
      ++counts[examples[end].second ? 1 : 0];
    }
    half_pairs += counts[1] * (2 * negatives_below + counts[0]);
    negatives_below += counts[0];
    begin = end;
  }
  return static_cast<double>(half_pairs) / 2 /
         (static_cast<double>(positive_count) * static_cast<double>(negative_count));
}

}  // namespace millrace::worker
