#include "ps/optimizer/adadelta.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"
#include "ps/optimizer/learning_rate.h"

namespace millrace::ps {
namespace {

constexpr double kAdadeltaLearningRate = 0.001;
constexpr double kAdadeltaRho = 0.95;
constexpr double kAdadeltaEpsilon = 1e-7;

struct AdadeltaRates {
  float learning_rate;
  float rho;
  float one_minus_rho;
  float epsilon;
};

// Slots: the decaying means of the gradient's square, and of the step's.
MILLRACE_KERNEL void AdadeltaStep(AdadeltaRates rates, const char* gradient, size_t count,
                                  const float* const* in, float* const* out) {
  const float* const value_in = in[0];
  const float* const square_in = in[1];
  const float* const step_square_in = in[2];
  float* const value_out = out[0];
  float* const square_out = out[1];
  float* const step_square_out = out[2];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float square = rates.rho * square_in[i] + rates.one_minus_rho * (g * g);
    square_out[i] = square;
    const float step =
        std::sqrt(step_square_in[i] + rates.epsilon) * g / std::sqrt(square + rates.epsilon);
    step_square_out[i] = rates.rho * step_square_in[i] + rates.one_minus_rho * (step * step);
    value_out[i] = value_in[i] - rates.learning_rate * step;
  }
}

class AdadeltaOptimizer final : public Optimizer {
 public:
  AdadeltaOptimizer(LearningRate learning_rate, double rho, double epsilon)
      : learning_rate_(std::move(learning_rate)), rho_(rho), epsilon_(epsilon) {}

  int slots() const override { return 2; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const AdadeltaRates rates = {
        .learning_rate = static_cast<float>(learning_rate_.At(version)),
        .rho = static_cast<float>(rho_),
        .one_minus_rho = static_cast<float>(1 - rho_),
        .epsilon = static_cast<float>(epsilon_),
    };
    const FlushDenormals flush_denormals;
    AdadeltaStep(rates, gradient, count, in, out);
  }

 private:
  const LearningRate learning_rate_;
  const double rho_;
  const double epsilon_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdadelta(const Adadelta& spec,
                                        const LearningRateSchedule& schedule) {
  return std::make_unique<AdadeltaOptimizer>(
      LearningRate(spec.has_learning_rate() ? spec.learning_rate() : kAdadeltaLearningRate,
                   schedule),
      spec.has_rho() ? spec.rho() : kAdadeltaRho,
      spec.has_epsilon() ? spec.epsilon() : kAdadeltaEpsilon);
}

}  // namespace millrace::ps
