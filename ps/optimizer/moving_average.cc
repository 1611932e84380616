#include "ps/optimizer/moving_average.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

MILLRACE_KERNEL void Average(float momentum, float one_minus_momentum, const char* statistic,
                             size_t count, const float* value_in, float* value_out) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    value_out[i] = value_in[i] * momentum + LoadFloat(statistic, i) * one_minus_momentum;
  }
}

class MovingAverageRule final : public Optimizer {
 public:
  MovingAverageRule(double momentum, int slots)
      : momentum_(static_cast<float>(momentum)),
        one_minus_momentum_(static_cast<float>(1 - momentum)),
        slots_(slots) {}

  int slots() const override { return slots_; }

  void Apply(uint64_t /*version*/, const char* statistic, size_t count, const float* const* in,
             float* const* out) const override {
    const FlushDenormals flush_denormals;
    Average(momentum_, one_minus_momentum_, statistic, count, in[0], out[0]);
    // `out` may be a buffer that was used before.
    for (int slot = 1; slot <= slots_; ++slot) {
      if (out[slot] != in[slot]) std::copy_n(in[slot], count, out[slot]);
    }
  }

 private:
  const float momentum_;
  const float one_minus_momentum_;
  const int slots_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeMovingAverage(const MovingAverage& spec, int slots) {
  return std::make_unique<MovingAverageRule>(spec.momentum(), slots);
}

}  // namespace millrace::ps
