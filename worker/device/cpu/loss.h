// The seam between a model and its loss on the CPU; one member of losses/ for each.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSS_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace millrace::worker {

// Sums over the examples of a batch.
struct LossSums {
  double loss = 0;
  double right = 0;  // Examples whose label the logits give.
};

// Immutable and thread-safe.
class CpuLoss {
 public:
  virtual ~CpuLoss() = default;

  // Labels that the loss takes are below this, for logits of that many for each example.
  virtual int64_t LabelLimit(size_t logits_per_example) const = 0;

  // Where `gradient` is not null, writes the gradient of the mean loss by the logits there. A loss
  // that is not finite shows in the sum. REQUIRES: labels.size() divides logits.size(); labels are
  // at least 0 and below LabelLimit.
  virtual LossSums Compute(absl::Span<const float> logits, absl::Span<const int64_t> labels,
                           float* gradient) const = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSS_H_
