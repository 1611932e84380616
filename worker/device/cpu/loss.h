// The seam between a model and its losses on the CPU; one member of losses/ for each.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LOSS_H_
#define MILLRACE_WORKER_DEVICE_CPU_LOSS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "worker/model/batch_metrics.h"

namespace millrace::worker {

// A batch as a loss takes it.
struct LossBatch {
  OutputBatch output;
  // How much each example counts; empty: 1.
  absl::Span<const double> weights;
  // What the gradient is multiplied by, beside that.
  double scale = 1;

  double weight(size_t example) const { return weights.empty() ? 1 : weights[example]; }
  // Of an example's gradient; what remains is to divide by the number of examples.
  double factor(size_t example) const { return weight(example) * scale; }
};

// Immutable and thread-safe.
class CpuLoss {
 public:
  virtual ~CpuLoss() = default;

  // The sum of the examples' losses, each times its weight; not times `scale`. Where `gradient` is
  // not null, writes the gradient of that sum, times scale / examples, by the output's values
  // there. A loss that is not finite shows in the sum. REQUIRES: CheckLabels of the batch is OK.
  virtual double Compute(const LossBatch& batch, float* gradient) const = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LOSS_H_
