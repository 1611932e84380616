#include "worker/device/cpu/output_heads.h"

#include "glog/logging.h"
#include "worker/device/cpu/members.h"
#include "worker/model/batch_metrics.h"

namespace millrace::worker {
namespace {

OutputBatch BatchOf(const OutputPlan& output, const CpuOutputHeads::Place& place,
                    const Batch& batch) {
  return {place.values, &batch.labels[output.label], batch.size};
}

// How much each example counts; empty: 1.
std::vector<double> ExampleWeights(const OutputPlan& output, const OutputBatch& batch,
                                   const Batch& examples, bool classes) {
  std::vector<double> weights(examples.weights.begin(), examples.weights.end());
  if (!classes || output.class_weights.empty()) return weights;
  weights.resize(batch.size, 1);
  for (size_t i = 0; i < batch.size; ++i) {
    weights[i] *= output.class_weights[ClassOf(output, batch, i)];
  }
  return weights;
}

}  // namespace

CpuOutputHeads::CpuOutputHeads(absl::Span<const OutputPlan> outputs) : outputs_(outputs) {
  for (const OutputPlan& output : outputs) losses_.push_back(MakeCpuLoss(output));
}

double CpuOutputHeads::Loss(size_t output, const OutputBatch& batch, const Batch& examples,
                            bool classes, float* gradient) const {
  const std::vector<double> weights = ExampleWeights(outputs_[output], batch, examples, classes);
  LossBatch loss_batch;
  loss_batch.output = batch;
  loss_batch.weights = weights;
  loss_batch.scale = outputs_[output].weight;
  return losses_[output]->Compute(loss_batch, gradient);
}

BatchResult CpuOutputHeads::Train(const Batch& batch, absl::Span<const Place> places) const {
  CHECK_EQ(places.size(), outputs_.size());
  BatchResult result;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputPlan& plan = outputs_[i];
    const OutputBatch output = BatchOf(plan, places[i], batch);
    const double loss = Loss(i, output, batch, /*classes=*/true, places[i].gradient);
    result.loss_sum += plan.weight * loss;
    if (outputs_.size() > 1) {
      AddTo(plan.ReportedName("loss"), loss, static_cast<double>(batch.size), /*root=*/false,
            &result.metric_sums);
    }
    AddMetrics(plan, output, &result.accuracy_sum, &result.metric_sums);
  }
  return result;
}

void CpuOutputHeads::Evaluate(const Batch& batch, absl::Span<const Place> places,
                              EvaluationSums* sums) const {
  CHECK_EQ(places.size(), outputs_.size());
  sums->examples += batch.size;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputPlan& plan = outputs_[i];
    const OutputBatch output = BatchOf(plan, places[i], batch);
    const double loss = Loss(i, output, batch, /*classes=*/false, /*gradient=*/nullptr);
    sums->loss_sum += plan.weight * loss;
    if (outputs_.size() > 1) {
      AddTo(plan.ReportedName("loss"), loss, static_cast<double>(batch.size), /*root=*/false,
            &sums->metric_sums);
    }
    AddMetrics(plan, output, &sums->accuracy_sum, &sums->metric_sums);
    AddEvaluationMetrics(plan, output, sums);
  }
}

}  // namespace millrace::worker
