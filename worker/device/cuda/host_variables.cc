#include "worker/device/cuda/host_variables.h"

#include <algorithm>
#include <cstring>

#include "worker/model/host_memory.h"

namespace millrace::worker {
namespace {

absl::Span<float> SpanAt(char* begin, size_t place, size_t elements) {
  return absl::MakeSpan(reinterpret_cast<float*>(begin + place), elements);
}

}  // namespace

VariablePlaces::VariablePlaces(const ModelPlan& plan, const Walk& walk, size_t replicas)
    : gradients(plan.variables.size()) {
  MemoryLayout of_values;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const auto& shape = plan.variables[i].shape();
    elements.push_back(ElementCount({shape.begin(), shape.end()}));
    values.push_back(of_values.Add(elements[i] * sizeof(float)));
  }
  values_bytes = of_values.bytes();
  PlanOrder(plan, walk);
  PlaceGradients(replicas);
}

void VariablePlaces::PlaceGradients(size_t replicas) {
  std::vector<size_t> standing = order;
  if (replicas == 1) std::sort(standing.begin(), standing.end());
  MemoryLayout layout = replicas == 1 ? MemoryLayout(HostMemory::kAlignment) : MemoryLayout();
  for (const size_t i : standing) {
    const size_t share = (elements[i] * sizeof(float) + replicas - 1) / replicas;
    gradients[i] = layout.Add(share);
    for (size_t k = 1; k < replicas; ++k) layout.Add(share);
  }
  gradients_bytes = layout.bytes();
}

void VariablePlaces::PlanOrder(const ModelPlan& plan, const Walk& walk) {
  std::vector<size_t> uses = walk.variable_uses;
  for (size_t step = 0; step < walk.backward.size(); ++step) {
    const LayerPlan& layer = plan.layers[walk.backward[step].layer];
    if (!IsTrained(layer)) continue;
    for (size_t role = layer.variables.size(); role-- > 0;) {  // As most layers do, the bias first.
      const int variable = layer.variables[role];
      if (variable < 0 || --uses[static_cast<size_t>(variable)] > 0) continue;
      order.push_back(static_cast<size_t>(variable));
      final_after.push_back(step + 1);
    }
  }
}

HostVariables::HostVariables(const VariablePlaces& places, cuda::Gpu* gpu)
    : places_(places), values_(gpu, places.values_bytes), gradients_(gpu, places.gradients_bytes) {
  std::memset(values_.data(), 0, places.values_bytes);
  std::memset(gradients_.data(), 0, places.gradients_bytes);
}

absl::Span<float> HostVariables::value(size_t variable) const {
  return SpanAt(values_.data(), places_.values[variable], places_.elements[variable]);
}

absl::Span<float> HostVariables::gradient(size_t variable) const {
  return SpanAt(gradients_.data(), places_.gradients[variable], places_.elements[variable]);
}

}  // namespace millrace::worker
