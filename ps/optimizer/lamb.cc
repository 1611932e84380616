// The pass over a variable moves the means on, and measures the step that follows from them. The
// update computes that step again, the same bits, rather than keep it: it has a place nowhere.
#include "ps/optimizer/lamb.h"

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

// Steps that are measured at a time: few enough to stay in the processor's first cache.
constexpr size_t kMeasuredAtATime = 4096;
static_assert(kMeasuredAtATime % SquareSum::kLanes == 0);

struct LambRates {
  MomentRates moments;
  // Of this version: of the means' bias towards 0.
  float mean_correction;
  float square_correction;
};

[[gnu::always_inline]] inline float LambStep(const LambRates& rates, const Moments& moments) {
  return rates.mean_correction * moments.mean /
         (std::sqrt(rates.square_correction * moments.square) + rates.moments.epsilon);
}

// Slots: the gradient's decaying mean, and its square's.
MILLRACE_KERNEL void MoveMeans(LambRates rates, ElementRun run, size_t begin, size_t count,
                               float* steps) {
  const char* const gradient = run.gradient + begin * sizeof(float);
  const float* const mean_in = run.in[1] + begin;
  const float* const square_in = run.in[2] + begin;
  float* const mean_out = run.out[1] + begin;
  float* const square_out = run.out[2] + begin;
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float g = LoadFloat(gradient, i);
    const Moments moved = rates.moments.Move({mean_in[i], square_in[i]}, g);
    mean_out[i] = moved.mean;
    square_out[i] = moved.square;
    steps[i] = LambStep(rates, moved);
  }
}

// The means are those that MoveMeans has written. In float64: where steps are tiny, the rate may be
// more than any float32.
MILLRACE_KERNEL void TakeSteps(LambRates rates, double learning_rate, size_t count,
                               const float* value_in, float* const* out) {
  float* const value_out = out[0];
  const float* const mean = out[1];
  const float* const square = out[2];
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const double step = LambStep(rates, {mean[i], square[i]});
    value_out[i] = value_in[i] - static_cast<float>(learning_rate * step);
  }
}

class LambOptimizer final : public Optimizer {
 public:
  LambOptimizer(LearningRate learning_rate, const MomentParameters& parameters)
      : learning_rate_(std::move(learning_rate)), parameters_(parameters) {}

  int slots() const override { return 2; }
  int passes() const override { return 1; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    ApplyToVariable(*this, version, {gradient, count, in, out});
  }

  void Measure(int /*pass*/, const VariableFacts& variable, const ElementRun& run,
               NormSums* sums) const override {
    const LambRates rates = RatesOf(variable.version);
    const FlushDenormals flush_denormals;
    alignas(64) std::array<float, kMeasuredAtATime> steps;
    const auto bytes_of = [](const float* floats) { return reinterpret_cast<const char*>(floats); };
    for (size_t begin = 0; begin < run.count; begin += kMeasuredAtATime) {
      const size_t here = std::min(kMeasuredAtATime, run.count - begin);
      MoveMeans(rates, run, begin, here, steps.data());
      sums->step.Add(bytes_of(steps.data()), here);
      sums->value.Add(bytes_of(run.in[0] + begin), here);
    }
  }

  void ApplyMeasured(const VariableFacts& variable, const ElementRun& run) const override {
    const double value = std::sqrt(variable.norms.value);
    const double step = std::sqrt(variable.norms.step);
    const double ratio = value > 0 && step > 0 ? value / step : 1;
    const double learning_rate = learning_rate_.At(variable.version) * ratio;
    const FlushDenormals flush_denormals;
    TakeSteps(RatesOf(variable.version), learning_rate, run.count, run.in[0], run.out);
  }

 private:
  LambRates RatesOf(uint64_t version) const {
    return {
        .moments = MomentRates(parameters_),
        .mean_correction = static_cast<float>(1 / (1 - Power(parameters_.beta_1, version))),
        .square_correction = static_cast<float>(1 / (1 - Power(parameters_.beta_2, version))),
    };
  }

  const LearningRate learning_rate_;
  const MomentParameters parameters_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeLamb(const Lamb& spec, const LearningRateSchedule& schedule) {
  return std::make_unique<LambOptimizer>(LearningRateOf(spec, schedule), MomentParametersOf(spec));
}

}  // namespace millrace::ps
