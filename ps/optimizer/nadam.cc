#include "ps/optimizer/nadam.h"

#include <algorithm>
#include <array>
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

// Momentum grows: version t has beta_1 * factor[t], and product[t] is that of factor[1] to
// factor[t]. After the last of them factors are 1 to the last bit, so their product stays: that of
// the momenta is a function of the version, and nothing has to be kept for it.
struct MomentumGrowth {
  static constexpr size_t kLast = 1000;
  std::array<double, kLast + 1> factor;
  std::array<double, kLast + 1> product;
};

constexpr MomentumGrowth MakeMomentumGrowth() {
  MomentumGrowth growth = {};
  double decayed = 1;
  growth.factor[0] = growth.product[0] = 1;
  for (size_t t = 1; t <= MomentumGrowth::kLast; ++t) {
    decayed *= 0.96;
    growth.factor[t] = 1 - 0.5 * decayed;
    growth.product[t] = growth.product[t - 1] * growth.factor[t];
  }
  return growth;
}

constexpr MomentumGrowth kMomentumGrowth = MakeMomentumGrowth();
static_assert(kMomentumGrowth.factor.back() == 1);

double Momentum(double beta_1, uint64_t version) {
  return beta_1 * kMomentumGrowth.factor[std::min<uint64_t>(version, MomentumGrowth::kLast)];
}

double ProductOfMomenta(double beta_1, uint64_t version) {
  return Power(beta_1, version) *
         kMomentumGrowth.product[std::min<uint64_t>(version, MomentumGrowth::kLast)];
}

struct NadamRates {
  MomentRates moments;
  // Of this version, with the correction of bias towards 0.
  float mean_rate;
  float gradient_rate;
  float square_correction;
};

// Slots: the gradient's decaying mean, and its square's.
MILLRACE_KERNEL void NadamStep(NadamRates rates, const char* gradient, size_t count,
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
    const Moments moved = rates.moments.Move({mean_in[i], square_in[i]}, g);
    mean_out[i] = moved.mean;
    square_out[i] = moved.square;
    const float step = rates.mean_rate * moved.mean + rates.gradient_rate * g;
    value_out[i] = value_in[i] - step / (std::sqrt(rates.square_correction * moved.square) +
                                         rates.moments.epsilon);
  }
}

class NadamOptimizer final : public Optimizer {
 public:
  NadamOptimizer(LearningRate learning_rate, const MomentParameters& parameters)
      : learning_rate_(std::move(learning_rate)), parameters_(parameters) {}

  int slots() const override { return 2; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const NadamRates rates = RatesOf(version);
    const FlushDenormals flush_denormals;
    NadamStep(rates, gradient, count, in, out);
  }

 private:
  NadamRates RatesOf(uint64_t version) const {
    const double learning_rate = learning_rate_.At(version);
    const double mean_part = Momentum(parameters_.beta_1, version + 1) /
                             (1 - ProductOfMomenta(parameters_.beta_1, version + 1));
    const double gradient_part = (1 - Momentum(parameters_.beta_1, version)) /
                                 (1 - ProductOfMomenta(parameters_.beta_1, version));
    return {
        .moments = MomentRates(parameters_),
        .mean_rate = static_cast<float>(learning_rate * mean_part),
        .gradient_rate = static_cast<float>(learning_rate * gradient_part),
        .square_correction = static_cast<float>(1 / (1 - Power(parameters_.beta_2, version))),
    };
  }

  const LearningRate learning_rate_;
  const MomentParameters parameters_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeNadam(const Nadam& spec, const LearningRateSchedule& schedule) {
  return std::make_unique<NadamOptimizer>(LearningRateOf(spec, schedule), MomentParametersOf(spec));
}

}  // namespace millrace::ps
