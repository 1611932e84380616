#include "worker/device/cpu/losses/categorical_crossentropy.h"

#include <algorithm>
#include <cmath>

namespace millrace::worker {
namespace {

// Of one example, with what stands for label c.
template <typename Label>
double SoftLabelLoss(absl::Span<const float> logits, const Label& label, double factor,
                     float* gradient) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double exponentials = 0;
  for (const float logit : logits) exponentials += std::exp(logit - largest);
  const double log_sum = std::log(exponentials);
  double loss = 0;
  double labels = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    loss += label(c) * (log_sum + (largest - logits[c]));
    labels += label(c);
  }
  if (gradient == nullptr) return loss;
  for (size_t c = 0; c < logits.size(); ++c) {
    const double share = std::exp(logits[c] - largest) / exponentials;
    gradient[c] = static_cast<float>((labels * share - label(c)) * factor);
  }
  return loss;
}

}  // namespace

double CategoricalCrossentropyLoss::Compute(const LossBatch& batch, float* gradient) const {
  const OutputBatch& output = batch.output;
  const size_t classes = output.width();
  const double even = smoothing_ / static_cast<double>(classes);
  double sum = 0;
  for (size_t i = 0; i < output.size; ++i) {
    const float* labels = output.label->floats.data() + i * classes;
    const double loss = SoftLabelLoss(
        output.values.subspan(i * classes, classes),
        [&](size_t c) { return labels[c] * (1 - smoothing_) + even; },
        batch.factor(i) / static_cast<double>(output.size),
        gradient == nullptr ? nullptr : gradient + i * classes);
    sum += loss * batch.weight(i);
  }
  return sum;
}

}  // namespace millrace::worker
