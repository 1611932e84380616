// loss = log(sum of exp(logits)) - logit of the label.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSSES_SPARSE_CATEGORICAL_CROSSENTROPY_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSSES_SPARSE_CATEGORICAL_CROSSENTROPY_H_

#include "worker/device/cpu/loss.h"

namespace millrace::worker {

class SparseCategoricalCrossentropyLoss final : public CpuLoss {
 public:
  double Compute(const LossBatch& batch, float* gradient) const override;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSSES_SPARSE_CATEGORICAL_CROSSENTROPY_H_
