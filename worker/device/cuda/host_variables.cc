#include "worker/device/cuda/host_variables.h"

#include <cstring>

namespace millrace::worker {
namespace {

absl::Span<float> SpanAt(char* begin, size_t place, size_t elements) {
  return absl::MakeSpan(reinterpret_cast<float*>(begin + place), elements);
}

}  // namespace

VariablePlaces::VariablePlaces(const ModelPlan& plan, const Walk& walk)
    : gradients(plan.variables.size()) {
  MemoryLayout of_values;
  MemoryLayout of_gradients;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const auto& shape = plan.variables[i].shape();
    elements.push_back(ElementCount({shape.begin(), shape.end()}));
    const size_t bytes = elements[i] * sizeof(float);
    values.push_back(of_values.Add(bytes));
    if (walk.variable_uses[i] > 0) gradients[i] = of_gradients.Add(bytes);
  }
  values_bytes = of_values.bytes();
  gradients_bytes = of_gradients.bytes();
}

HostVariables::HostVariables(const VariablePlaces& places, cuda::Gpu* gpu)
    : places_(places), values_(gpu, places.values_bytes), gradients_(gpu, places.gradients_bytes) {
  if (places.values_bytes > 0) std::memset(values_.data(), 0, places.values_bytes);
}

absl::Span<float> HostVariables::value(size_t variable) const {
  return SpanAt(values_.data(), places_.values[variable], places_.elements[variable]);
}

absl::Span<float> HostVariables::gradient(size_t variable) const {
  return SpanAt(gradients_.data(), places_.gradients[variable], places_.elements[variable]);
}

}  // namespace millrace::worker
