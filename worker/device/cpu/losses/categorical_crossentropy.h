// loss = sum over the classes of label * (log(sum of exp(logits)) - logit).
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSSES_CATEGORICAL_CROSSENTROPY_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSSES_CATEGORICAL_CROSSENTROPY_H_

#include "worker/device/cpu/loss.h"

namespace millrace::worker {

// Of labels that are probabilities. The gradient is that of the formula also where they add up to
// something a little off 1.
class CategoricalCrossentropyLoss final : public CpuLoss {
 public:
  // See OutputSpec.label_smoothing.
  explicit CategoricalCrossentropyLoss(double label_smoothing = 0) : smoothing_(label_smoothing) {}

  double Compute(const LossBatch& batch, float* gradient) const override;

 private:
  const double smoothing_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSSES_CATEGORICAL_CROSSENTROPY_H_
