// loss = -log(sigmoid(logit)) where the label is 1, -log(1 - sigmoid(logit)) where it is 0.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSSES_BINARY_CROSSENTROPY_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSSES_BINARY_CROSSENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "worker/device/cpu/loss.h"

namespace millrace::worker {

// Right: the logit is above 0 exactly when the label is 1.
class BinaryCrossentropyLoss final : public CpuLoss {
 public:
  int64_t LabelLimit(size_t /*logits_per_example*/) const override { return 2; }
  LossSums Compute(absl::Span<const float> logits, absl::Span<const int64_t> labels,
                   float* gradient) const override;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSSES_BINARY_CROSSENTROPY_H_
