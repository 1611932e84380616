#include "worker/device/cpu/losses/binary_crossentropy.h"

#include <algorithm>
#include <cmath>

namespace millrace::worker {
namespace {

// max(x, 0) - x z + log(1 + exp(-|x|)): the same as the definition, but nothing overflows and
// nothing cancels.
double ExampleLoss(double logit, double label) {
  return (logit > 0 ? logit : 0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
}

double Sigmoid(double x) {
  const double small = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : small) / (1 + small);
}

}  // namespace

LossSums BinaryCrossentropyLoss::Compute(absl::Span<const float> logits,
                                         absl::Span<const int64_t> labels, float* gradient) const {
  const double examples = static_cast<double>(labels.size());
  LossSums sums;
  for (size_t i = 0; i < labels.size(); ++i) {
    sums.loss += ExampleLoss(logits[i], labels[i]);
    if ((logits[i] > 0) == (labels[i] == 1)) ++sums.right;
    if (gradient != nullptr) {
      gradient[i] = static_cast<float>((Sigmoid(logits[i]) - labels[i]) / examples);
    }
  }
  return sums;
}

}  // namespace millrace::worker
