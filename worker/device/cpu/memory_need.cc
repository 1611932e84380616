#include "worker/device/cpu/memory_need.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "worker/model/memory_budget.h"

namespace millrace::worker {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// For one example, in elements.
struct ExampleNeed {
  double input = 0;
  double outputs = 0;  // Of all layers, with what they keep for the backward pass.
  double largest = 0;  // The largest output.
};

ExampleNeed NeedOfExample(const ModelPlan& plan) {
  ExampleNeed need;
  need.input = static_cast<double>(ElementCount(plan.layers.front().input));
  for (const LayerPlan& layer : plan.layers) {
    const double elements = static_cast<double>(ElementCount(layer.output));
    need.largest = std::max(need.largest, elements);
    if (layer.spec.has_flatten()) continue;  // It is its input.
    need.outputs += elements;
    if (layer.spec.has_max_pool2d()) need.outputs += elements;  // Where each came from.
  }
  return need;
}

double VariableElements(const ModelPlan& plan) {
  double sum = 0;
  for (const VariableSpec& variable : plan.variables) {
    double elements = 1;
    for (const uint64_t size : variable.shape()) elements *= static_cast<double>(size);
    sum += elements;
  }
  return sum;
}

// Of the model's outputs inside, whose gradients are kept until the backward pass gets there.
double InnerOutputElements(const ModelPlan& plan) {
  double sum = 0;
  for (const OutputPlan& output : plan.outputs) {
    if (output.layer + 1 < plan.layers.size()) sum += static_cast<double>(output.width);
  }
  return sum;
}

double BatchElements(const ExampleNeed& example, const BatchSizes& batches) {
  const double train = example.input * static_cast<double>(batches.train);
  const double largest = example.input * static_cast<double>(batches.largest());
  // A whole number of bytes where it decides: below the limit of PrefetchedBatches.
  const uint64_t bytes = static_cast<uint64_t>(std::min(train * sizeof(float), 0x1p62));
  return train * static_cast<double>(PrefetchedBatches(bytes)) +
         largest * static_cast<double>(kBatchesInUse);
}

}  // namespace

double MemoryNeed(const ModelPlan& plan, const BatchSizes& batches) {
  const ExampleNeed example = NeedOfExample(plan);
  const double outputs = example.outputs * static_cast<double>(batches.largest());
  // By the output and by the input of a layer.
  const double gradients_by_outputs =
      (2 * example.largest + InnerOutputElements(plan)) * static_cast<double>(batches.train);
  return sizeof(float) * ((1 + kGradientSets) * VariableElements(plan) + outputs +
                          gradients_by_outputs + BatchElements(example, batches));
}

absl::Status CheckMemory(const ModelPlan& plan, const BatchSizes& batches, uint64_t limit) {
  const double most = static_cast<double>(limit);
  const double need = MemoryNeed(plan, batches);
  if (need <= most) return absl::OkStatus();
  const bool train_alone = MemoryNeed(plan, {batches.train, 0}) > most;
  const char* const field = train_alone ? "batch_size" : "evaluation.batch_size";
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the model, with batches of %d examples (%s), needs %.1f GiB of memory, this worker may use "
      "%.1f GiB; use %sa smaller %s",
      train_alone ? batches.train : batches.evaluation, field, need / kGiB, most / kGiB,
      train_alone ? "smaller layers or " : "", field));
}

}  // namespace millrace::worker
