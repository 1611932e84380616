// What is behind a model's outputs, whatever device computed them and their losses.
#ifndef MILLRACE_WORKER_MODEL_OUTPUT_RESULTS_H_
#define MILLRACE_WORKER_MODEL_OUTPUT_RESULTS_H_

#include <vector>

#include "absl/types/span.h"
#include "worker/input/batch.h"
#include "worker/model/batch_metrics.h"
#include "worker/model/model.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// An output as the losses and metrics take it.
inline OutputBatch OutputOf(const OutputPlan& output, absl::Span<const float> values,
                            const Batch& batch) {
  return {values, &batch.labels[output.label], batch.size};
}

// How much each example counts for the output's loss; empty: 1. `classes`: class weights count too.
std::vector<double> ExampleWeights(const OutputPlan& output, const OutputBatch& values,
                                   const Batch& batch, bool classes);

// Adds what a training batch says of one of the model's `outputs`, whose loss, the sum of the
// examples' times their weights, is `loss`.
void AddOutput(absl::Span<const OutputPlan> outputs, const OutputPlan& output,
               const OutputBatch& values, double loss, BatchResult* result);

// The same of a batch of an evaluation, but for the number of examples.
void AddEvaluatedOutput(absl::Span<const OutputPlan> outputs, const OutputPlan& output,
                        const OutputBatch& values, double loss, EvaluationSums* sums);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_OUTPUT_RESULTS_H_
