// Each example has a block. Formulas are those of worker/device/cpu/losses.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/reduce.h"

namespace millrace::cuda {
namespace {

// Logits are taken relative to the largest.
MILLRACE_DEVICE float LargestOf(const float* logits, size_t width, float* shared) {
  float largest = -INFINITY;
  for (size_t i = threadIdx.x; i < width; i += blockDim.x) largest = fmaxf(largest, logits[i]);
  return ReduceBlock(largest, shared, Larger());
}

__global__ void SparseCategoricalCrossentropyKernel(LossPass pass, size_t width, double scale) {
  __shared__ float largest_of[kMostWarps];
  __shared__ double sum_of[kMostWarps];
  for (size_t example = blockIdx.x; example < pass.batch; example += gridDim.x) {
    const float* const logits = pass.output + example * width;
    const auto label = static_cast<size_t>(pass.ids[example]);
    const double weight = pass.weights[example];
    const float largest = LargestOf(logits, width, largest_of);
    double sum = 0;
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) sum += expf(logits[i] - largest);
    sum = ReduceBlock(sum, sum_of, Sum());
    if (threadIdx.x == 0) {
      const double loss =
          log(sum) + (static_cast<double>(largest) - static_cast<double>(logits[label]));
      pass.losses[example] = loss * weight;
    }
    if (pass.gradient == nullptr) continue;
    const double factor = weight * scale / static_cast<double>(pass.mean_of);
    const auto share = static_cast<float>(factor / sum);
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
      const float gradient = expf(logits[i] - largest) * share;
      pass.gradient[example * width + i] =
          i == label ? gradient - static_cast<float>(factor) : gradient;
    }
  }
}

__global__ void CategoricalCrossentropyKernel(LossPass pass, size_t width, double scale,
                                              double smoothing) {
  __shared__ float largest_of[kMostWarps];
  __shared__ double sum_of[kMostWarps];
  const double even = smoothing / static_cast<double>(width);
  for (size_t example = blockIdx.x; example < pass.batch; example += gridDim.x) {
    const float* const logits = pass.output + example * width;
    const float* const labels = pass.floats + example * width;
    const double largest = LargestOf(logits, width, largest_of);
    double sum = 0;
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) sum += exp(logits[i] - largest);
    sum = ReduceBlock(sum, sum_of, Sum());
    const double log_sum = log(sum);
    double loss = 0;
    double label_sum = 0;
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
      const double label = labels[i] * (1 - smoothing) + even;
      loss += label * (log_sum + (largest - logits[i]));
      label_sum += label;
    }
    loss = ReduceBlock(loss, sum_of, Sum());
    label_sum = ReduceBlock(label_sum, sum_of, Sum());
    if (threadIdx.x == 0) pass.losses[example] = loss * pass.weights[example];
    if (pass.gradient == nullptr) continue;
    const double factor = pass.weights[example] * scale / static_cast<double>(pass.mean_of);
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
      const double label = labels[i] * (1 - smoothing) + even;
      const double share = exp(logits[i] - largest) / sum;
      pass.gradient[example * width + i] = static_cast<float>((label_sum * share - label) * factor);
    }
  }
}

// Losses of a number and its label, of which an example's is the mean.

// max(x, 0) - x label + log(1 + exp(-|x|)): neither overflows nor cancels.
struct BinaryCrossentropy {
  MILLRACE_DEVICE double Label(double y) const { return y * (1 - smoothing) + smoothing / 2; }
  MILLRACE_DEVICE double Loss(double x, double y) const {
    return (x > 0 ? x : 0) - x * Label(y) + log1p(exp(-fabs(x)));
  }
  MILLRACE_DEVICE double Slope(double x, double y) const {
    const double small = exp(-fabs(x));
    return (x >= 0 ? 1 : small) / (1 + small) - Label(y);
  }
  double smoothing;
};

struct SquaredError {
  MILLRACE_DEVICE double Loss(double x, double y) const { return (x - y) * (x - y); }
  MILLRACE_DEVICE double Slope(double x, double y) const { return 2 * (x - y); }
};

struct AbsoluteError {
  MILLRACE_DEVICE double Loss(double x, double y) const { return fabs(x - y); }
  MILLRACE_DEVICE double Slope(double x, double y) const { return x > y ? 1 : x < y ? -1 : 0; }
};

struct HuberError {
  MILLRACE_DEVICE double Loss(double x, double y) const {
    const double size = fabs(x - y);
    return size <= delta ? size * size / 2 : delta * size - delta * delta / 2;
  }
  MILLRACE_DEVICE double Slope(double x, double y) const {
    const double most = delta < x - y ? delta : x - y;
    return -delta < most ? most : -delta;
  }
  double delta;
};

template <typename Numbers>
__global__ void NumbersKernel(LossPass pass, size_t width, double scale, Numbers numbers) {
  __shared__ double sum_of[kMostWarps];
  const auto count = static_cast<double>(width);
  for (size_t example = blockIdx.x; example < pass.batch; example += gridDim.x) {
    const double weight = pass.weights[example];
    double sum = 0;
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
      const size_t place = example * width + i;
      const double x = pass.output[place];
      const double y = pass.floats != nullptr ? static_cast<double>(pass.floats[place])
                                              : static_cast<double>(pass.ids[place]);
      sum += numbers.Loss(x, y) / count;
      if (pass.gradient == nullptr) continue;
      const double all = count * static_cast<double>(pass.mean_of);
      pass.gradient[place] = static_cast<float>(numbers.Slope(x, y) / all * (weight * scale));
    }
    sum = ReduceBlock(sum, sum_of, Sum());
    if (threadIdx.x == 0) pass.losses[example] = sum * weight;
  }
}

class LossOfExamples final : public Loss {
 public:
  LossOfExamples(const Context& context, const LossDescription& description)
      : stream_(context.stream), description_(description) {}

  void Compute(const LossPass& pass) override {
    switch (description_.kind) {
      case LossKind::kSparseCategoricalCrossentropy:
        return LaunchLoss(pass, SparseCategoricalCrossentropyKernel);
      case LossKind::kCategoricalCrossentropy:
        return LaunchLoss(pass, CategoricalCrossentropyKernel, description_.label_smoothing);
      case LossKind::kBinaryCrossentropy:
        return LaunchLoss(pass, NumbersKernel<BinaryCrossentropy>,
                          BinaryCrossentropy{description_.label_smoothing});
      case LossKind::kMeanSquaredError:
        return LaunchLoss(pass, NumbersKernel<SquaredError>, SquaredError());
      case LossKind::kMeanAbsoluteError:
        return LaunchLoss(pass, NumbersKernel<AbsoluteError>, AbsoluteError());
      case LossKind::kHuber:
        return LaunchLoss(pass, NumbersKernel<HuberError>, HuberError{description_.huber_delta});
    }
  }

 private:
  template <typename Kernel, typename... Arguments>
  void LaunchLoss(const LossPass& pass, Kernel* kernel, Arguments... arguments) {
    const auto width = static_cast<size_t>(description_.width);
    LaunchForRows(stream_, pass.batch, width, kernel, pass, width, description_.scale,
                  arguments...);
  }

  const cudaStream_t stream_;
  const LossDescription description_;
};

}  // namespace

std::unique_ptr<Loss> MakeLoss(const Context& context, const LossDescription& description) {
  return std::make_unique<LossOfExamples>(context, description);
}

}  // namespace millrace::cuda
