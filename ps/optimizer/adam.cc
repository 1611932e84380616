#include "ps/optimizer/adam.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"
#include "ps/optimizer/learning_rate.h"
#include "ps/optimizer/moments.h"
#include "ps/optimizer/portable_math.h"

namespace millrace::ps {
namespace {

constexpr double kAdamWeightDecay = 0.004;  // Of AdamW.

struct AdamRates {
  MomentRates moments;
  float learning_rate;  // Of this version: with the correction of the means' bias towards 0.
  float decay;          // The part of a value that decays in this version.
};

// Slots: the gradient's decaying mean, and its square's; then the largest of the latter, with
// amsgrad.
template <bool kDecay, bool kAmsgrad>
[[gnu::always_inline]] inline void AdamLoop(AdamRates rates, const char* gradient, size_t count,
                                            const float* const* in, float* const* out) {
  constexpr int kLargestSlot = kAmsgrad ? 3 : 0;
  const float* const value_in = in[0];
  const float* const mean_in = in[1];
  const float* const square_in = in[2];
  const float* const largest_in = in[kLargestSlot];
  float* const value_out = out[0];
  float* const mean_out = out[1];
  float* const square_out = out[2];
  float* const largest_out = out[kLargestSlot];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const Moments moved = rates.moments.Move({mean_in[i], square_in[i]}, g);
    mean_out[i] = moved.mean;
    square_out[i] = moved.square;
    float scale = moved.square;
    if constexpr (kAmsgrad) {
      scale = moved.square < largest_in[i] ? largest_in[i] : moved.square;
      largest_out[i] = scale;
    }
    float value = value_in[i];
    if constexpr (kDecay) value -= value * rates.decay;
    value_out[i] =
        value - rates.learning_rate * moved.mean / (std::sqrt(scale) + rates.moments.epsilon);
  }
}

using AdamKernel = void (*)(AdamRates rates, const char* gradient, size_t count,
                            const float* const* in, float* const* out);

MILLRACE_KERNEL void AdamStep(AdamRates rates, const char* gradient, size_t count,
                              const float* const* in, float* const* out) {
  AdamLoop</*kDecay=*/false, /*kAmsgrad=*/false>(rates, gradient, count, in, out);
}

MILLRACE_KERNEL void AmsgradStep(AdamRates rates, const char* gradient, size_t count,
                                 const float* const* in, float* const* out) {
  AdamLoop</*kDecay=*/false, /*kAmsgrad=*/true>(rates, gradient, count, in, out);
}

MILLRACE_KERNEL void AdamWStep(AdamRates rates, const char* gradient, size_t count,
                               const float* const* in, float* const* out) {
  AdamLoop</*kDecay=*/true, /*kAmsgrad=*/false>(rates, gradient, count, in, out);
}

MILLRACE_KERNEL void AmsgradWStep(AdamRates rates, const char* gradient, size_t count,
                                  const float* const* in, float* const* out) {
  AdamLoop</*kDecay=*/true, /*kAmsgrad=*/true>(rates, gradient, count, in, out);
}

AdamKernel ChooseAdamKernel(bool decay, bool amsgrad) {
  if (decay) return amsgrad ? AmsgradWStep : AdamWStep;
  return amsgrad ? AmsgradStep : AdamStep;
}

struct AdamParameters {
  MomentParameters moments;
  bool amsgrad;
  double weight_decay;
};

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(LearningRate learning_rate, const AdamParameters& parameters)
      : learning_rate_(std::move(learning_rate)),
        parameters_(parameters),
        kernel_(ChooseAdamKernel(parameters.weight_decay != 0, parameters.amsgrad)) {}

  int slots() const override { return parameters_.amsgrad ? 3 : 2; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const AdamRates rates = RatesOf(version);
    const FlushDenormals flush_denormals;
    kernel_(rates, gradient, count, in, out);
  }

 private:
  AdamRates RatesOf(uint64_t version) const {
    const double learning_rate = learning_rate_.At(version);
    const double correction = std::sqrt(1 - Power(parameters_.moments.beta_2, version)) /
                              (1 - Power(parameters_.moments.beta_1, version));
    return {
        .moments = MomentRates(parameters_.moments),
        .learning_rate = static_cast<float>(learning_rate * correction),
        .decay = static_cast<float>(learning_rate * parameters_.weight_decay),
    };
  }

  const LearningRate learning_rate_;
  const AdamParameters parameters_;
  const AdamKernel kernel_;
};

template <typename Spec>
std::unique_ptr<Optimizer> MakeFromSpec(const Spec& spec, double weight_decay,
                                        const LearningRateSchedule& schedule) {
  return std::make_unique<AdamOptimizer>(LearningRateOf(spec, schedule),
                                         AdamParameters{
                                             .moments = MomentParametersOf(spec),
                                             .amsgrad = spec.amsgrad(),
                                             .weight_decay = weight_decay,
                                         });
}

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const Adam& spec, const LearningRateSchedule& schedule) {
  return MakeFromSpec(spec, /*weight_decay=*/0, schedule);
}

std::unique_ptr<Optimizer> MakeAdamW(const AdamW& spec, const LearningRateSchedule& schedule) {
  return MakeFromSpec(spec, spec.has_weight_decay() ? spec.weight_decay() : kAdamWeightDecay,
                      schedule);
}

}  // namespace millrace::ps
