// loss = -y log(sigmoid(logit)) - (1 - y) log(1 - sigmoid(logit)), the mean over an example's
// logits.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSSES_BINARY_CROSSENTROPY_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSSES_BINARY_CROSSENTROPY_H_

#include "worker/device/cpu/loss.h"

namespace millrace::worker {

class BinaryCrossentropyLoss final : public CpuLoss {
 public:
  // See OutputSpec.label_smoothing.
  explicit BinaryCrossentropyLoss(double label_smoothing = 0) : smoothing_(label_smoothing) {}

  double Compute(const LossBatch& batch, float* gradient) const override;

 private:
  double LabelAt(const Tensor& label, size_t index) const;

  const double smoothing_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSSES_BINARY_CROSSENTROPY_H_
