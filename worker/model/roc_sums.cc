#include "worker/model/roc_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/model/metrics.h"

namespace millrace::worker {

void RocSums::Add(float score, bool positive) {
  std::vector<uint64_t>& above = positive ? positives_above_ : negatives_above_;
  if (above.empty()) {
    scores_.push_back(score);
    positives_.push_back(positive);
    return;
  }
  nan_ = nan_ || std::isnan(score);
  if (nan_) return;
  // The largest threshold below the probability; the first one is below all.
  const double probability = 1 / (1 + std::exp(-static_cast<double>(score)));
  const double highest = static_cast<double>(above.size() - 1);
  ++above[static_cast<size_t>(std::max(std::ceil(probability * highest) - 1, 0.0))];
}

absl::optional<double> RocSums::Area() const {
  if (!positives_above_.empty()) return AreaByThresholds();
  if (scores_.empty()) return absl::nullopt;
  return AreaUnderRocCurve(scores_, positives_);
}

// Trapezes between the points of neighbouring thresholds, from the highest threshold (of which
// nothing is above) down: the rates of false and of true positives grow.
absl::optional<double> RocSums::AreaByThresholds() const {
  if (nan_) return std::numeric_limits<double>::quiet_NaN();
  double positives = 0;
  double negatives = 0;
  double area = 0;
  for (size_t i = positives_above_.size(); i-- > 0;) {
    const double more_positives = static_cast<double>(positives_above_[i]);
    const double more_negatives = static_cast<double>(negatives_above_[i]);
    area += more_negatives * (positives + more_positives / 2);
    positives += more_positives;
    negatives += more_negatives;
  }
  if (positives == 0 || negatives == 0) return absl::nullopt;
  return area / (positives * negatives);
}

}  // namespace millrace::worker
