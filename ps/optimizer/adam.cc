#include "ps/optimizer/adam.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

constexpr double kAdamLearningRate = 0.001;
constexpr double kAdamBeta1 = 0.9;
constexpr double kAdamBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-7;

struct AdamRates {
  float beta_1;
  float one_minus_beta_1;
  float beta_2;
  float one_minus_beta_2;
  float epsilon;
  float learning_rate;  // Of this version: with the correction of the means' bias towards 0.
};

MILLRACE_KERNEL void AdamStep(AdamRates rates, const char* gradient, size_t count,
                              const float* const* in, float* const* out) {
  const float* const value_in = in[0];
  const float* const mean_in = in[1];
  const float* const square_in = in[2];
  float* const value_out = out[0];
  float* const mean_out = out[1];
  float* const square_out = out[2];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float mean = rates.beta_1 * mean_in[i] + rates.one_minus_beta_1 * g;
    const float square = rates.beta_2 * square_in[i] + rates.one_minus_beta_2 * (g * g);
    mean_out[i] = mean;
    square_out[i] = square;
    value_out[i] = value_in[i] - rates.learning_rate * mean / (std::sqrt(square) + rates.epsilon);
  }
}

// By squaring: std::pow is allowed to round differently from one processor to the next.
double Power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// Slots: the gradient's decaying mean, and its square's.
class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(double learning_rate, double beta_1, double beta_2, double epsilon)
      : learning_rate_(learning_rate), beta_1_(beta_1), beta_2_(beta_2), epsilon_(epsilon) {}

  int slots() const override { return 2; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const double correction =
        std::sqrt(1 - Power(beta_2_, version)) / (1 - Power(beta_1_, version));
    const AdamRates rates = {
        .beta_1 = static_cast<float>(beta_1_),
        .one_minus_beta_1 = static_cast<float>(1 - beta_1_),
        .beta_2 = static_cast<float>(beta_2_),
        .one_minus_beta_2 = static_cast<float>(1 - beta_2_),
        .epsilon = static_cast<float>(epsilon_),
        .learning_rate = static_cast<float>(learning_rate_ * correction),
    };
    const FlushDenormals flush_denormals;
    AdamStep(rates, gradient, count, in, out);
  }

 private:
  const double learning_rate_;
  const double beta_1_;
  const double beta_2_;
  const double epsilon_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const Adam& spec) {
  return std::make_unique<AdamOptimizer>(
      spec.has_learning_rate() ? spec.learning_rate() : kAdamLearningRate,
      spec.has_beta_1() ? spec.beta_1() : kAdamBeta1,
      spec.has_beta_2() ? spec.beta_2() : kAdamBeta2,
      spec.has_epsilon() ? spec.epsilon() : kAdamEpsilon);
}

}  // namespace millrace::ps
