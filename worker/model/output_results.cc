#include "worker/model/output_results.h"

namespace millrace::worker {
namespace {

// What is told of a batch, in training and in evaluation.
template <typename Sums>
void AddLossAndMetrics(absl::Span<const OutputPlan> outputs, const OutputPlan& output,
                       const OutputBatch& values, double loss, Sums* sums) {
  sums->loss_sum += output.weight * loss;
  if (outputs.size() > 1) {
    AddTo(output.ReportedName("loss"), loss, static_cast<double>(values.size), /*root=*/false,
          &sums->metric_sums);
  }
  AddMetrics(output, values, &sums->accuracy_sum, &sums->metric_sums);
}

}  // namespace

std::vector<double> ExampleWeights(const OutputPlan& output, const OutputBatch& values,
                                   const Batch& batch, bool classes) {
  std::vector<double> weights(batch.weights.begin(), batch.weights.end());
  if (!classes || output.class_weights.empty()) return weights;
  weights.resize(batch.size, 1);
  for (size_t i = 0; i < batch.size; ++i) {
    weights[i] *= output.class_weights[ClassOf(output, values, i)];
  }
  return weights;
}

void AddOutput(absl::Span<const OutputPlan> outputs, const OutputPlan& output,
               const OutputBatch& values, double loss, BatchResult* result) {
  AddLossAndMetrics(outputs, output, values, loss, result);
}

void AddEvaluatedOutput(absl::Span<const OutputPlan> outputs, const OutputPlan& output,
                        const OutputBatch& values, double loss, EvaluationSums* sums) {
  AddLossAndMetrics(outputs, output, values, loss, sums);
  AddEvaluationMetrics(output, values, sums);
}

}  // namespace millrace::worker
