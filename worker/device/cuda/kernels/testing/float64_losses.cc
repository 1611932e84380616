#include "worker/device/cuda/kernels/testing/float64_losses.h"

#include <cmath>
#include <cstddef>

#include "glog/logging.h"

namespace millrace::worker {
namespace {

double LabelAt(const Tensor& label, size_t i) {
  return label.floats.empty() ? static_cast<double>(label.ids[i])
                              : static_cast<double>(label.floats[i]);
}

// Of one number and its label.
double LossOfNumber(const OutputPlan& output, double x, double y) {
  const double probability = 1 / (1 + std::exp(-x));
  const double smooth = y * (1 - output.label_smoothing) + output.label_smoothing / 2;
  const double error = std::abs(y - x), delta = output.huber_delta;
  switch (output.loss) {
    case BINARY_CROSSENTROPY:
      return -smooth * std::log(probability) - (1 - smooth) * std::log(1 - probability);
    case MEAN_SQUARED_ERROR:
      return error * error;
    case MEAN_ABSOLUTE_ERROR:
      return error;
    case HUBER:
      return error <= delta ? error * error / 2 : delta * error - delta * delta / 2;
    default:
      LOG(FATAL) << "no loss of numbers: " << Loss_Name(output.loss);
  }
}

// How likely the example's classes should be.
Doubles Shares(const OutputPlan& output, const Tensor& label, size_t example) {
  Doubles shares;
  const auto classes = static_cast<double>(output.width);
  for (size_t i = 0; i < output.width; ++i) {
    if (output.loss == SPARSE_CATEGORICAL_CROSSENTROPY) {
      shares.push_back(label.ids[example] == static_cast<int64_t>(i) ? 1 : 0);
    } else {
      shares.push_back(LabelAt(label, example * output.width + i) * (1 - output.label_smoothing) +
                       output.label_smoothing / classes);
    }
  }
  return shares;
}

double LossOfClasses(const Doubles& shares, const double* logits) {
  double exponentials = 0, loss = 0;
  for (size_t i = 0; i < shares.size(); ++i) exponentials += std::exp(logits[i]);
  for (size_t i = 0; i < shares.size(); ++i) {
    loss -= shares[i] * std::log(std::exp(logits[i]) / exponentials);
  }
  return loss;
}

double MeanOfNumbers(const OutputPlan& output, const Doubles& values, const Tensor& label,
                     size_t example) {
  double sum = 0;
  for (size_t i = example * output.width; i < (example + 1) * output.width; ++i) {
    sum += LossOfNumber(output, values[i], LabelAt(label, i));
  }
  return sum / static_cast<double>(output.width);
}

}  // namespace

Doubles Float64Losses(const OutputPlan& output, const Doubles& values, const Tensor& label) {
  const bool of_classes =
      output.loss == SPARSE_CATEGORICAL_CROSSENTROPY || output.loss == CATEGORICAL_CROSSENTROPY;
  Doubles losses;
  for (size_t example = 0; example < values.size() / output.width; ++example) {
    losses.push_back(of_classes ? LossOfClasses(Shares(output, label, example),
                                                values.data() + example * output.width)
                                : MeanOfNumbers(output, values, label, example));
  }
  return losses;
}

}  // namespace millrace::worker
