#include "worker/device/cpu/losses/binary_crossentropy.h"

#include <cmath>

namespace millrace::worker {
namespace {

// max(x, 0) - x z + log(1 + exp(-|x|)): the same as the definition, but nothing overflows and
// nothing cancels.
double LogitLoss(double logit, double label) {
  return (logit > 0 ? logit : 0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
}

double Sigmoid(double x) {
  const double small = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : small) / (1 + small);
}

}  // namespace

double BinaryCrossentropyLoss::LabelAt(const Tensor& label, size_t index) const {
  const double y = label.floats.empty() ? static_cast<double>(label.ids[index])
                                        : static_cast<double>(label.floats[index]);
  return y * (1 - smoothing_) + smoothing_ / 2;
}

double BinaryCrossentropyLoss::Compute(const LossBatch& batch, float* gradient) const {
  const OutputBatch& output = batch.output;
  const size_t width = output.width();
  const double numbers = static_cast<double>(output.values.size());
  double sum = 0;
  for (size_t i = 0; i < output.values.size(); ++i) {
    const size_t example = i / width;
    const double label = LabelAt(*output.label, i);
    sum += LogitLoss(output.values[i], label) / static_cast<double>(width) * batch.weight(example);
    if (gradient != nullptr) {
      gradient[i] =
          static_cast<float>((Sigmoid(output.values[i]) - label) / numbers * batch.factor(example));
    }
  }
  return sum;
}

}  // namespace millrace::worker
