#include "worker/device/cpu/losses/sparse_categorical_crossentropy.h"

#include <algorithm>
#include <cmath>

namespace millrace::worker {
namespace {

// The loss of one example. Logits are taken relative to the largest, so that no exponential
// overflows and at least one is 1: the logarithm's argument is between 1 and `classes`.
double ExampleLoss(const float* logits, size_t classes, int64_t label, double example_weight,
                   float* gradient) {
  const float largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (size_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - largest);
  if (gradient != nullptr) {
    const float scale = static_cast<float>(example_weight / sum);
    for (size_t i = 0; i < classes; ++i) gradient[i] = std::exp(logits[i] - largest) * scale;
    gradient[label] -= static_cast<float>(example_weight);
  }
  return std::log(sum) + (static_cast<double>(largest) - static_cast<double>(logits[label]));
}

}  // namespace

int64_t SparseCategoricalCrossentropyLoss::LabelLimit(size_t logits_per_example) const {
  return static_cast<int64_t>(logits_per_example);  // See kMaxExampleElements.
}

LossSums SparseCategoricalCrossentropyLoss::Compute(absl::Span<const float> logits,
                                                    absl::Span<const int64_t> labels,
                                                    float* gradient) const {
  const size_t classes = logits.size() / labels.size();
  const double example_weight = 1 / static_cast<double>(labels.size());
  LossSums sums;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* example = logits.data() + i * classes;
    sums.loss += ExampleLoss(example, classes, labels[i], example_weight,
                             gradient == nullptr ? nullptr : gradient + i * classes);
    if (std::max_element(example, example + classes) == example + labels[i]) ++sums.right;
  }
  return sums;
}

}  // namespace millrace::worker
