#include "worker/device/cpu/memory_need.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "worker/model/memory_budget.h"
#include "worker/model/memory_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Where the gradients of layers that share a variable are added up.
double SharedElements(const ModelPlan& plan, const Walk& walk) {
  double sum = 0;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    if (walk.variable_uses[i] > 1) sum += VariableElements(plan.variables[i]);
  }
  return sum;
}

}  // namespace

double ModelBytes(const ModelPlan& plan, const BatchSizes& batches) {
  const Walk walk = PlanWalk(plan);
  const size_t passes =
      std::max(PlanMemory(plan, walk, batches.train, /*training=*/true).size,
               PlanMemory(plan, walk, batches.largest(), /*training=*/false).size);
  const double values = (plan.pulls_ahead ? 2 : 1) * VariableElements(plan);
  return sizeof(float) * (values + SharedElements(plan, walk) + static_cast<double>(passes));
}

double MemoryNeed(const ModelPlan& plan, const BatchSizes& batches) {
  return ModelBytes(plan, batches) + TrainingBytes(plan, batches);
}

absl::Status CheckMemory(const ModelPlan& plan, const BatchSizes& batches, uint64_t limit) {
  const double most = static_cast<double>(limit);
  const double need = MemoryNeed(plan, batches);
  if (need <= most) return absl::OkStatus();
  const bool train_alone = MemoryNeed(plan, {batches.train, 0}) > most;
  const char* const field = train_alone ? "batch_size" : "evaluation.batch_size";
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the model, with batches of %d examples (%s), needs %.2f GiB of memory, this worker may use "
      "%.2f GiB; use %sa smaller %s",
      train_alone ? batches.train : batches.evaluation, field, need / kGiB, most / kGiB,
      train_alone ? "smaller layers or " : "", field));
}

}  // namespace millrace::worker
