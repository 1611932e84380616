#include "worker/device/cpu/memory_need.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_format.h"

namespace millrace::worker {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double MachineMemory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

double MemoryNeed(const ModelPlan& plan, size_t batch) {
  double variables = 0;
  for (const VariableSpec& variable : plan.variables) {
    double elements = 1;
    for (const uint64_t size : variable.shape()) elements *= static_cast<double>(size);
    variables += elements;
  }
  double outputs = 0;
  double largest = 0;
  for (const LayerPlan& layer : plan.layers) {
    const double elements = static_cast<double>(ElementCount(layer.output));
    if (!layer.spec.has_flatten()) outputs += elements;
    largest = std::max(largest, elements);
  }
  // Values and gradients of the variables; outputs, and the gradients by two of them.
  return sizeof(float) * (2 * variables + static_cast<double>(batch) * (outputs + 2 * largest));
}

absl::Status CheckMemory(const ModelPlan& plan, size_t batch) {
  const double need = MemoryNeed(plan, batch);
  const double machine = MachineMemory();
  if (need <= machine) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the model with a batch of %d examples needs %.1f GiB of memory, this machine has %.1f GiB; "
      "use smaller layers or a smaller batch_size",
      batch, need / kGiB, machine / kGiB));
}

}  // namespace millrace::worker
