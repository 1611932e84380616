#include "ps/optimizer/adagrad.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"
#include "ps/optimizer/learning_rate.h"

namespace millrace::ps {
namespace {

constexpr double kAdagradLearningRate = 0.001;
constexpr double kAdagradInitialAccumulator = 0.1;
constexpr double kAdagradEpsilon = 1e-7;

struct AdagradRates {
  float learning_rate;
  float epsilon;
};

MILLRACE_KERNEL void AdagradStep(AdagradRates rates, const char* gradient, size_t count,
                                 const float* const* in, float* const* out) {
  const float* const value_in = in[0];
  const float* const accumulator_in = in[1];
  float* const value_out = out[0];
  float* const accumulator_out = out[1];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float accumulator = accumulator_in[i] + g * g;
    accumulator_out[i] = accumulator;
    value_out[i] = value_in[i] - rates.learning_rate * g / std::sqrt(accumulator + rates.epsilon);
  }
}

// One slot: the sum of the gradient's squares.
class AdagradOptimizer final : public Optimizer {
 public:
  AdagradOptimizer(LearningRate learning_rate, float initial_accumulator, float epsilon)
      : learning_rate_(std::move(learning_rate)),
        initial_accumulator_(initial_accumulator),
        epsilon_(epsilon) {}

  int slots() const override { return 1; }
  float initial_slot(int /*slot*/) const override { return initial_accumulator_; }
  bool keeps_without_gradient() const override { return true; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const AdagradRates rates = {static_cast<float>(learning_rate_.At(version)), epsilon_};
    const FlushDenormals flush_denormals;
    AdagradStep(rates, gradient, count, in, out);
  }

 private:
  const LearningRate learning_rate_;
  const float initial_accumulator_;
  const float epsilon_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdagrad(const Adagrad& spec, const LearningRateSchedule& schedule) {
  return std::make_unique<AdagradOptimizer>(
      LearningRate(spec.has_learning_rate() ? spec.learning_rate() : kAdagradLearningRate,
                   schedule),
      static_cast<float>(spec.has_initial_accumulator_value() ? spec.initial_accumulator_value()
                                                              : kAdagradInitialAccumulator),
      static_cast<float>(spec.has_epsilon() ? spec.epsilon() : kAdagradEpsilon));
}

}  // namespace millrace::ps
