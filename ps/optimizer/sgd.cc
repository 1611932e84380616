#include "ps/optimizer/sgd.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/optimizer/kernel.h"
#include "ps/optimizer/learning_rate.h"
#include "ps/optimizer/streamed_descent.h"

namespace millrace::ps {
namespace {

constexpr double kSgdLearningRate = 0.01;

MILLRACE_KERNEL void Descend(float learning_rate, const char* gradient, size_t count,
                             const float* value_in, float* value_out) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    value_out[i] = value_in[i] - learning_rate * LoadFloat(gradient, i);
  }
}

struct MomentumArguments {
  float learning_rate;
  float momentum;
  const char* gradient;
  size_t count;
  const float* value_in;
  const float* velocity_in;
  float* value_out;
  float* velocity_out;
};

MILLRACE_KERNEL void DescendWithMomentum(MomentumArguments a) {
#pragma GCC ivdep
  for (size_t i = 0; i < a.count; ++i) {
    const float step = a.learning_rate * LoadFloat(a.gradient, i);
    const float velocity = a.momentum * a.velocity_in[i] - step;
    a.velocity_out[i] = velocity;
    a.value_out[i] = a.value_in[i] + velocity;
  }
}

MILLRACE_KERNEL void DescendWithNesterovMomentum(MomentumArguments a) {
#pragma GCC ivdep
  for (size_t i = 0; i < a.count; ++i) {
    const float step = a.learning_rate * LoadFloat(a.gradient, i);
    const float velocity = a.momentum * a.velocity_in[i] - step;
    a.velocity_out[i] = velocity;
    a.value_out[i] = a.value_in[i] + (a.momentum * velocity - step);
  }
}

class PlainSgd final : public Optimizer {
 public:
  explicit PlainSgd(LearningRate learning_rate) : learning_rate_(std::move(learning_rate)) {}

  int slots() const override { return 0; }
  bool keeps_without_gradient() const override { return true; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const auto rate = static_cast<float>(learning_rate_.At(version));
    const FlushDenormals flush_denormals;
    const StreamedPart streamed = FindStreamedPart(in[0], out[0], count);
    DescendFromTo(rate, 0, streamed.begin, gradient, in[0], out[0]);
    if (streamed.begin < streamed.end) {
      DescendStreamed(rate, gradient + streamed.begin * sizeof(float),
                      streamed.end - streamed.begin, in[0] + streamed.begin,
                      out[0] + streamed.begin);
    }
    DescendFromTo(rate, streamed.end, count, gradient, in[0], out[0]);
  }

 private:
  static void DescendFromTo(float rate, size_t begin, size_t end, const char* gradient,
                            const float* in, float* out) {
    Descend(rate, gradient + begin * sizeof(float), end - begin, in + begin, out + begin);
  }

  const LearningRate learning_rate_;
};

class MomentumSgd final : public Optimizer {
 public:
  MomentumSgd(LearningRate learning_rate, float momentum, bool nesterov)
      : learning_rate_(std::move(learning_rate)), momentum_(momentum), nesterov_(nesterov) {}

  int slots() const override { return 1; }

  void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    const auto rate = static_cast<float>(learning_rate_.At(version));
    const FlushDenormals flush_denormals;
    const MomentumArguments arguments = {rate,  momentum_, gradient, count,
                                         in[0], in[1],     out[0],   out[1]};
    nesterov_ ? DescendWithNesterovMomentum(arguments) : DescendWithMomentum(arguments);
  }

 private:
  const LearningRate learning_rate_;
  const float momentum_;
  const bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const Sgd& spec, const LearningRateSchedule& schedule) {
  LearningRate learning_rate(spec.has_learning_rate() ? spec.learning_rate() : kSgdLearningRate,
                             schedule);
  // Without momentum Nesterov's formula is the plain one.
  const auto momentum = static_cast<float>(spec.momentum());
  if (momentum == 0) return std::make_unique<PlainSgd>(std::move(learning_rate));
  return std::make_unique<MomentumSgd>(std::move(learning_rate), momentum, spec.nesterov());
}

}  // namespace millrace::ps
