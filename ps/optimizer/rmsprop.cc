#include "ps/optimizer/rmsprop.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"
#include "ps/optimizer/learning_rate.h"
#include "ps/optimizer/streamed_descent.h"
#include "ps/optimizer/streamed_rmsprop.h"

namespace millrace::ps {
namespace {

constexpr double kRmspropLearningRate = 0.001;
constexpr double kRmspropRho = 0.9;
constexpr double kRmspropEpsilon = 1e-7;

// Slots: the square's decaying mean; then the velocity, with momentum; then the gradient's decaying
// mean, if centered.
constexpr int kSquareSlot = 1;

template <bool kMomentum, bool kCentered>
[[gnu::always_inline]] inline void RmsPropLoop(RmsPropRates rates, const char* gradient,
                                               size_t count, const float* const* in,
                                               float* const* out) {
  constexpr int kVelocitySlot = kMomentum ? kSquareSlot + 1 : 0;
  constexpr int kMeanSlot = kCentered ? kSquareSlot + kMomentum + 1 : 0;
  const float* const value_in = in[0];
  const float* const square_in = in[kSquareSlot];
  const float* const velocity_in = in[kVelocitySlot];
  const float* const mean_in = in[kMeanSlot];
  float* const value_out = out[0];
  float* const square_out = out[kSquareSlot];
  float* const velocity_out = out[kVelocitySlot];
  float* const mean_out = out[kMeanSlot];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const float square = rates.rho * square_in[i] + rates.one_minus_rho * (g * g);
    square_out[i] = square;
    float variance = square;
    if constexpr (kCentered) {
      const float mean = rates.rho * mean_in[i] + rates.one_minus_rho * g;
      mean_out[i] = mean;
      // Rounding takes the difference below 0 where a gradient hardly changes.
      const float difference = square - mean * mean;
      variance = difference < 0 ? 0 : difference;
    }
    float step = rates.learning_rate * g / std::sqrt(variance + rates.epsilon);
    if constexpr (kMomentum) {
      step = rates.momentum * velocity_in[i] + step;
      velocity_out[i] = step;
    }
    value_out[i] = value_in[i] - step;
  }
}

using RmsPropKernel = void (*)(RmsPropRates rates, const char* gradient, size_t count,
                               const float* const* in, float* const* out);

MILLRACE_KERNEL void Plain(RmsPropRates rates, const char* gradient, size_t count,
                           const float* const* in, float* const* out) {
  RmsPropLoop</*kMomentum=*/false, /*kCentered=*/false>(rates, gradient, count, in, out);
}

MILLRACE_KERNEL void Centered(RmsPropRates rates, const char* gradient, size_t count,
                              const float* const* in, float* const* out) {
  RmsPropLoop</*kMomentum=*/false, /*kCentered=*/true>(rates, gradient, count, in, out);
}

MILLRACE_KERNEL void WithMomentum(RmsPropRates rates, const char* gradient, size_t count,
                                  const float* const* in, float* const* out) {
  RmsPropLoop</*kMomentum=*/true, /*kCentered=*/false>(rates, gradient, count, in, out);
}

MILLRACE_KERNEL void CenteredWithMomentum(RmsPropRates rates, const char* gradient, size_t count,
                                          const float* const* in, float* const* out) {
  RmsPropLoop</*kMomentum=*/true, /*kCentered=*/true>(rates, gradient, count, in, out);
}

void ShortPlain(const RmsPropRates& rates, const char* gradient, size_t begin, size_t end,
                const float* const* in, float* const* out) {
  const float* const from[] = {in[0] + begin, in[1] + begin};
  float* const to[] = {out[0] + begin, out[1] + begin};
  Plain(rates, gradient + begin * sizeof(float), end - begin, from, to);
}

bool LieAlike(const float* a, const float* b) {
  constexpr uintptr_t kLine = 64;  // Bytes.
  return (reinterpret_cast<uintptr_t>(a) - reinterpret_cast<uintptr_t>(b)) % kLine == 0;
}

// Long runs past the caches.
void StreamedPlain(RmsPropRates rates, const char* gradient, size_t count, const float* const* in,
                   float* const* out) {
  StreamedPart part;
  if (LieAlike(out[0], out[1])) part = FindStreamedPart(in[0], out[0], count);
  ShortPlain(rates, gradient, 0, part.begin, in, out);
  if (part.begin < part.end) {
    const float* const from[] = {in[0] + part.begin, in[1] + part.begin};
    float* const to[] = {out[0] + part.begin, out[1] + part.begin};
    RmsPropStreamed(rates, gradient + part.begin * sizeof(float), part.end - part.begin, from, to);
  }
  ShortPlain(rates, gradient, part.end, count, in, out);
}

class RmsPropOptimizer final : public Optimizer {
 public:
  RmsPropOptimizer(LearningRate learning_rate, RmsPropRates rates, bool centered)
      : learning_rate_(std::move(learning_rate)),
        rates_(rates),
        centered_(centered),
        kernel_(ChooseKernel(rates.momentum != 0, centered)) {}

  int slots() const override { return 1 + (rates_.momentum != 0) + centered_; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    RmsPropRates rates = rates_;
    rates.learning_rate = static_cast<float>(learning_rate_.At(version));
    const FlushDenormals flush_denormals;
    kernel_(rates, gradient, count, in, out);
  }

 private:
  static RmsPropKernel ChooseKernel(bool momentum, bool centered) {
    if (momentum) return centered ? CenteredWithMomentum : WithMomentum;
    return centered ? Centered : StreamedPlain;
  }

  const LearningRate learning_rate_;
  const RmsPropRates rates_;
  const bool centered_;
  const RmsPropKernel kernel_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeRmsProp(const RmsProp& spec, const LearningRateSchedule& schedule) {
  const double rho = spec.has_rho() ? spec.rho() : kRmspropRho;
  const RmsPropRates rates = {
      .rho = static_cast<float>(rho),
      .one_minus_rho = static_cast<float>(1 - rho),
      .momentum = static_cast<float>(spec.momentum()),
      .epsilon = static_cast<float>(spec.has_epsilon() ? spec.epsilon() : kRmspropEpsilon),
  };
  return std::make_unique<RmsPropOptimizer>(
      LearningRate(spec.has_learning_rate() ? spec.learning_rate() : kRmspropLearningRate,
                   schedule),
      rates, spec.centered());
}

}  // namespace millrace::ps
