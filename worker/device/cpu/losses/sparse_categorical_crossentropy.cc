#include "worker/device/cpu/losses/sparse_categorical_crossentropy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

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

double SparseCategoricalCrossentropyLoss::Compute(const LossBatch& batch, float* gradient) const {
  const OutputBatch& output = batch.output;
  const size_t classes = output.width();
  const double share = 1 / static_cast<double>(output.size);
  double sum = 0;
  for (size_t i = 0; i < output.size; ++i) {
    const double loss = ExampleLoss(output.values.data() + i * classes, classes,
                                    output.label->ids[i], share * batch.factor(i),
                                    gradient == nullptr ? nullptr : gradient + i * classes);
    sum += loss * batch.weight(i);
  }
  return sum;
}

}  // namespace millrace::worker
