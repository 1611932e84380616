#include "ps/optimizer/ftrl.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ps/optimizer/kernel.h"
#include "ps/optimizer/portable_math.h"

namespace millrace::ps {
namespace {

constexpr double kFtrlLearningRate = 0.001;
constexpr double kFtrlLearningRatePower = -0.5;
constexpr double kFtrlInitialAccumulator = 0.1;
// In the order of OptimizerSlots: the sum of the gradient's squares, and what the values follow
// from.
constexpr int kAccumulatorSlot = 1;
constexpr int kLinearSlot = 2;

struct FtrlRates {
  float learning_rate;
  double power;  // To which accumulators are raised.
  float l1;
  float twice_l2;  // Of both, and with beta's share.
  float twice_l2_shrinkage;
};

template <typename Raise>
[[gnu::always_inline]] inline void FtrlLoop(FtrlRates rates, const char* gradient, size_t count,
                                            const float* const* in, float* const* out,
                                            const Raise& raise) {
  const float* const value_in = in[0];
  const float* const accumulator_in = in[kAccumulatorSlot];
  const float* const linear_in = in[kLinearSlot];
  float* const value_out = out[0];
  float* const accumulator_out = out[kAccumulatorSlot];
  float* const linear_out = out[kLinearSlot];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float value = value_in[i];
    const float accumulator = accumulator_in[i] + g * g;
    const float raised = raise(accumulator);
    const float growth = (raised - raise(accumulator_in[i])) / rates.learning_rate;
    const float linear = linear_in[i] + (g + rates.twice_l2_shrinkage * value - growth * value);
    accumulator_out[i] = accumulator;
    linear_out[i] = linear;
    const float at_least = linear < -rates.l1 ? -rates.l1 : linear;
    const float clipped = at_least > rates.l1 ? rates.l1 : at_least;
    const float divisor = raised / rates.learning_rate + rates.twice_l2;
    const float past = clipped - linear;
    // A square below 1.2e-38 counts as 0, and then there is nothing to divide by.
    value_out[i] = past == 0 || divisor == 0 ? 0 : past / divisor;
  }
}

using FtrlKernel = void (*)(FtrlRates rates, const char* gradient, size_t count,
                            const float* const* in, float* const* out);

MILLRACE_KERNEL void FtrlWithSquareRoots(FtrlRates rates, const char* gradient, size_t count,
                                         const float* const* in, float* const* out) {
  FtrlLoop(rates, gradient, count, in, out, [](float x) { return std::sqrt(x); });
}

MILLRACE_KERNEL void FtrlWithoutPowers(FtrlRates rates, const char* gradient, size_t count,
                                       const float* const* in, float* const* out) {
  FtrlLoop(rates, gradient, count, in, out, [](float) { return 1.0f; });
}

void FtrlWithPowers(FtrlRates rates, const char* gradient, size_t count, const float* const* in,
                    float* const* out) {
  FtrlLoop(rates, gradient, count, in, out,
           [&rates](float x) { return static_cast<float>(Pow(x, rates.power)); });
}

FtrlKernel ChooseFtrlKernel(double power) {
  if (power == 0.5) return FtrlWithSquareRoots;
  return power == 0 ? FtrlWithoutPowers : FtrlWithPowers;
}

class FtrlOptimizer final : public Optimizer {
 public:
  FtrlOptimizer(const FtrlRates& rates, float initial_accumulator)
      : rates_(rates),
        initial_accumulator_(initial_accumulator),
        kernel_(ChooseFtrlKernel(rates.power)) {}

  int slots() const override { return 2; }
  float initial_slot(int slot) const override {
    return slot == kAccumulatorSlot ? initial_accumulator_ : 0;
  }

  void Apply(uint64_t /*version*/, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const FlushDenormals flush_denormals;
    kernel_(rates_, gradient, count, in, out);
  }

 private:
  const FtrlRates rates_;
  const float initial_accumulator_;
  const FtrlKernel kernel_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeFtrl(const Ftrl& spec) {
  const double learning_rate = spec.has_learning_rate() ? spec.learning_rate() : kFtrlLearningRate;
  const FtrlRates rates = {
      .learning_rate = static_cast<float>(learning_rate),
      .power =
          -(spec.has_learning_rate_power() ? spec.learning_rate_power() : kFtrlLearningRatePower),
      .l1 = static_cast<float>(spec.l1()),
      .twice_l2 = static_cast<float>(2 * spec.l2() + spec.beta() / learning_rate),
      .twice_l2_shrinkage = static_cast<float>(2 * spec.l2_shrinkage()),
  };
  return std::make_unique<FtrlOptimizer>(
      rates,
      static_cast<float>(spec.has_initial_accumulator_value() ? spec.initial_accumulator_value()
                                                              : kFtrlInitialAccumulator));
}

}  // namespace millrace::ps
