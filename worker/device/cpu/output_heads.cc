#include "worker/device/cpu/output_heads.h"

#include "glog/logging.h"
#include "worker/device/cpu/members.h"
#include "worker/model/output_results.h"

namespace millrace::worker {

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
    const OutputBatch output = OutputOf(outputs_[i], places[i].values, batch);
    const double loss = Loss(i, output, batch, /*classes=*/true, places[i].gradient);
    AddOutput(outputs_, outputs_[i], output, loss, &result);
  }
  return result;
}

void CpuOutputHeads::Evaluate(const Batch& batch, absl::Span<const Place> places,
                              EvaluationSums* sums) const {
  CHECK_EQ(places.size(), outputs_.size());
  sums->examples += batch.size;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputBatch output = OutputOf(outputs_[i], places[i].values, batch);
    const double loss = Loss(i, output, batch, /*classes=*/false, /*gradient=*/nullptr);
    AddEvaluatedOutput(outputs_, outputs_[i], output, loss, sums);
  }
}

}  // namespace millrace::worker
