#include "worker/model/memory_budget.h"

#include "worker/input/example_spec.h"

namespace millrace::worker {
namespace {

// Those of frozen variables have no gradients.
double PushedElements(const ModelPlan& plan) {
  ModelPlan pushed;
  for (const VariableSpec& variable : plan.variables) {
    if (!variable.update().has_frozen()) pushed.variables.push_back(variable);
  }
  return VariableElements(pushed);
}

double BatchBytes(const ModelPlan& plan, const BatchSizes& batches) {
  const double example = static_cast<double>(ExampleBytes({plan.features, plan.labels}));
  const double train = example * static_cast<double>(batches.train);
  const double largest = example * static_cast<double>(batches.largest());
  // A whole number of bytes where it decides: below the limit of PrefetchedBatches.
  const uint64_t bytes = static_cast<uint64_t>(std::min(train, 0x1p62));
  const double compact = plan.host_bytes > 0 ? 2 * largest : 0;  // Each may be of an evaluation.
  return train * static_cast<double>(PrefetchedBatches(bytes)) +
         largest * static_cast<double>(kBatchesInUse) + compact;
}

}  // namespace

double VariableElements(const VariableSpec& variable) {
  double elements = 1;
  for (const uint64_t size : variable.shape()) elements *= static_cast<double>(size);
  return elements;
}

double VariableElements(const ModelPlan& plan) {
  double sum = 0;
  for (const VariableSpec& variable : plan.variables) sum += VariableElements(variable);
  return sum;
}

double TrainingBytes(const ModelPlan& plan, const BatchSizes& batches) {
  return sizeof(float) * kGradientSets * PushedElements(plan) + BatchBytes(plan, batches) +
         plan.host_bytes;
}

absl::Status NoMemoryForModel() {
  return absl::ResourceExhaustedError(
      "no memory is left for the model; use smaller layers or a smaller batch_size");
}

}  // namespace millrace::worker
