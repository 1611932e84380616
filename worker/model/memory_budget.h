// What the training loop keeps beside a model: it holds to this, and a device counts it in when it
// sees whether a job fits into memory.
#ifndef MILLRACE_WORKER_MODEL_MEMORY_BUDGET_H_
#define MILLRACE_WORKER_MODEL_MEMORY_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Sets of gradients, each as large as the variables: the one that is filled, and those of pushes on
// their way.
inline constexpr size_t kPushesUnderWay = 2;
inline constexpr size_t kGradientSets = kPushesUnderWay + 1;

// Batches that are made ready ahead of their steps, of `batch_bytes` each: at least one, and no
// more than fit into 256 MiB.
inline size_t PrefetchedBatches(uint64_t batch_bytes) {
  constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  constexpr uint64_t kMostBatches = 4;
  return static_cast<size_t>(
      std::clamp<uint64_t>(kMostBytes / std::max<uint64_t>(batch_bytes, 1), 1, kMostBatches));
}

// Batches in memory beside those: of the step under way, and of an evaluation.
inline constexpr size_t kBatchesInUse = 2;

// Elements of one variable, and of all of a plan. Doubles, since they may be more than any machine
// has.
double VariableElements(const VariableSpec& variable);
double VariableElements(const ModelPlan& plan);

// Bytes for the gradients on their way to the ps servers, for the batches, and for tables.
double TrainingBytes(const ModelPlan& plan, const BatchSizes& batches);

// RESOURCE_EXHAUSTED: of a std::bad_alloc, where a model is made or runs.
absl::Status NoMemoryForModel();

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_MEMORY_BUDGET_H_
