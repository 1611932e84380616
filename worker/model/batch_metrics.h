// What the metrics of an output find in a batch, on any device.
#ifndef MILLRACE_WORKER_MODEL_BATCH_METRICS_H_
#define MILLRACE_WORKER_MODEL_BATCH_METRICS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "worker/input/batch.h"
#include "worker/model/model.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// What a layer gave for a batch, beside what it should be.
struct OutputBatch {
  absl::Span<const float> values;  // Of all examples, row-major.
  const Tensor* label = nullptr;
  size_t size = 0;  // Examples; at least 1.

  size_t width() const { return values.size() / size; }
};

// Whether the labels and weights of a batch are such that the outputs' losses take them.
// INVALID_ARGUMENT: "a batch has the label 7 in 'digit'; the loss takes 0 to 6".
// REQUIRES: the batch has what the outputs' plans say.
absl::Status CheckLabels(absl::Span<const OutputPlan> outputs, const Batch& batch);

// The class that is the label of example `example`, by OutputSpec.class_weights. Takes no value of
// the batch. REQUIRES: the output's loss has classes.
int64_t ClassOf(const OutputPlan& output, const OutputBatch& batch, size_t example);

// Adds what a batch says to the metrics that can be told of training batches. `accuracy_sum` is
// that of a model's single output; the accuracies of several are among the others.
void AddMetrics(const OutputPlan& output, const OutputBatch& batch,
                absl::optional<double>* accuracy_sum, MetricSums* sums);

// Adds it to those of an evaluation alone.
void AddEvaluationMetrics(const OutputPlan& output, const OutputBatch& batch, EvaluationSums* sums);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_BATCH_METRICS_H_
