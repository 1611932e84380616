// loss = log(sum of exp(logits)) - logit of the label.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSSES_SPARSE_CATEGORICAL_CROSSENTROPY_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSSES_SPARSE_CATEGORICAL_CROSSENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "worker/device/cpu/loss.h"

namespace millrace::worker {

// Right: the label has the largest logit (the first of equal ones).
class SparseCategoricalCrossentropyLoss final : public CpuLoss {
 public:
  int64_t LabelLimit(size_t logits_per_example) const override;
  LossSums Compute(absl::Span<const float> logits, absl::Span<const int64_t> labels,
                   float* gradient) const override;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSSES_SPARSE_CATEGORICAL_CROSSENTROPY_H_
