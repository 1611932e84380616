// What Adam, AMSGrad, AdamW, Nadam and LAMB share: the decaying means of an element's gradient and
// of its square.
#ifndef MILLRACE_PS_OPTIMIZER_MOMENTS_H_
#define MILLRACE_PS_OPTIMIZER_MOMENTS_H_

#include "protos/optimizer.pb.h"
#include "ps/optimizer/learning_rate.h"

namespace millrace::ps {

struct MomentParameters {
  double beta_1;
  double beta_2;
  double epsilon;
};

// Of a spec of one of these optimizers; all have the same defaults.
template <typename Spec>
MomentParameters MomentParametersOf(const Spec& spec) {
  return {
      .beta_1 = spec.has_beta_1() ? spec.beta_1() : 0.9,
      .beta_2 = spec.has_beta_2() ? spec.beta_2() : 0.999,
      .epsilon = spec.has_epsilon() ? spec.epsilon() : 1e-7,
  };
}

template <typename Spec>
LearningRate LearningRateOf(const Spec& spec, const LearningRateSchedule& schedule) {
  return LearningRate(spec.has_learning_rate() ? spec.learning_rate() : 0.001, schedule);
}

struct Moments {
  float mean;
  float square;
};

// MomentParameters as kernels take them.
struct MomentRates {
  explicit MomentRates(const MomentParameters& parameters)
      : beta_1(static_cast<float>(parameters.beta_1)),
        one_minus_beta_1(static_cast<float>(1 - parameters.beta_1)),
        beta_2(static_cast<float>(parameters.beta_2)),
        one_minus_beta_2(static_cast<float>(1 - parameters.beta_2)),
        epsilon(static_cast<float>(parameters.epsilon)) {}

  // With one more gradient.
  [[gnu::always_inline]] Moments Move(const Moments& before, float gradient) const {
    return {beta_1 * before.mean + one_minus_beta_1 * gradient,
            beta_2 * before.square + one_minus_beta_2 * (gradient * gradient)};
  }

  float beta_1;
  float one_minus_beta_1;
  float beta_2;
  float one_minus_beta_2;
  float epsilon;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_MOMENTS_H_
