#include "worker/device/cpu/losses/regression.h"

#include <algorithm>
#include <cmath>

namespace millrace::worker {
namespace {

// `loss` and `slope` are functions of the error.
template <typename LossOf, typename SlopeOf>
double SumOfErrors(const LossBatch& batch, const LossOf& loss, const SlopeOf& slope,
                   float* gradient) {
  const OutputBatch& output = batch.output;
  const size_t width = output.width();
  const double numbers = static_cast<double>(output.values.size());
  double sum = 0;
  for (size_t i = 0; i < output.values.size(); ++i) {
    const size_t example = i / width;
    const double error = static_cast<double>(output.values[i]) - output.label->floats[i];
    sum += loss(error) / static_cast<double>(width) * batch.weight(example);
    if (gradient == nullptr) continue;
    gradient[i] = static_cast<float>(slope(error) * batch.factor(example) / numbers);
  }
  return sum;
}

double SignOf(double error) { return error > 0 ? 1 : error < 0 ? -1 : 0; }

}  // namespace

double MeanSquaredErrorLoss::Compute(const LossBatch& batch, float* gradient) const {
  return SumOfErrors(
      batch, [](double error) { return error * error; }, [](double error) { return 2 * error; },
      gradient);
}

double MeanAbsoluteErrorLoss::Compute(const LossBatch& batch, float* gradient) const {
  return SumOfErrors(
      batch, [](double error) { return std::abs(error); }, SignOf, gradient);
}

double HuberLoss::Compute(const LossBatch& batch, float* gradient) const {
  return SumOfErrors(
      batch,
      [this](double error) {
        const double size = std::abs(error);
        return size <= delta_ ? error * error / 2 : delta_ * size - delta_ * delta_ / 2;
      },
      [this](double error) { return std::max(-delta_, std::min(error, delta_)); }, gradient);
}

}  // namespace millrace::worker
