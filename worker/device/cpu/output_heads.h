// What is behind a model's outputs: losses, their gradients, metrics.
#ifndef MILLRACE_WORKER_DEVICE_CPU_OUTPUT_HEADS_H_
#define MILLRACE_WORKER_DEVICE_CPU_OUTPUT_HEADS_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/device/cpu/loss.h"
#include "worker/input/batch.h"
#include "worker/model/model.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// Immutable and thread-safe. The batches must have passed CheckLabels (worker/model).
class CpuOutputHeads {
 public:
  // `outputs` must outlive it.
  explicit CpuOutputHeads(absl::Span<const OutputPlan> outputs);

  // What an output's layer gave for a batch, and where the gradient by that goes.
  struct Place {
    absl::Span<const float> values;
    float* gradient = nullptr;
  };

  // What a training batch says, with one place for each output. Writes the gradients of the batch's
  // mean loss, which is the sum of the outputs' losses, each times its weight.
  BatchResult Train(const Batch& batch, absl::Span<const Place> places) const;

  // Adds what a batch says to `sums`. Writes no gradients.
  void Evaluate(const Batch& batch, absl::Span<const Place> places, EvaluationSums* sums) const;

 private:
  // The output's loss, with its gradient where `place` wants it. `classes`: class weights count.
  double Loss(size_t output, const OutputBatch& batch, const Batch& examples, bool classes,
              float* gradient) const;

  const absl::Span<const OutputPlan> outputs_;
  std::vector<std::unique_ptr<CpuLoss>> losses_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_OUTPUT_HEADS_H_
