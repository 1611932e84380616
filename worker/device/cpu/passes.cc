#include "worker/device/cpu/passes.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "worker/device/cpu/members.h"

namespace millrace::worker {
namespace {

// Of the inputs of one layer.
template <typename Pointer>
using Pointers = absl::InlinedVector<Pointer, 8>;

}  // namespace

CpuPasses::CpuPasses(const ModelPlan& plan, const BatchSizes& batches,
                     const std::vector<CpuBuffer>& values)
    : plan_(plan),
      walk_(PlanWalk(plan)),
      training_(PlanMemory(plan, walk_, batches.train, /*training=*/true)),
      evaluation_(PlanMemory(plan, walk_, batches.largest(), /*training=*/false)),
      memory_(std::max(training_.size, evaluation_.size)),
      sums_(plan, walk_, values),
      layers_(plan.layers.size()) {
  MakeLayers(batches, values);
}

CpuParameters CpuPasses::ParametersOf(const LayerPlan& layer,
                                      const std::vector<CpuBuffer>& values) const {
  CpuParameters parameters;
  for (const int variable : layer.variables) {
    parameters.Add(variable < 0 ? nullptr : &values[variable]);
  }
  return parameters;
}

void CpuPasses::MakeLayers(const BatchSizes& batches, const std::vector<CpuBuffer>& values) {
  std::vector<bool> gives_gradients(layers_.size());
  for (const BackwardStep& step : walk_.backward) {
    for (const GradientUse use : step.gradients) {
      if (use != GradientUse::kNone) gives_gradients[step.layer] = true;
    }
  }
  for (const ForwardStep& step : walk_.forward) {
    const LayerPlan& plan = plan_.layers[step.layer];
    layers_[step.layer] = MakeCpuLayer(&context_, plan, step.layer, ParametersOf(plan, values),
                                       gives_gradients[step.layer]);
    layers_[step.layer]->Prepare(batches.train);
    if (batches.evaluation > 0) layers_[step.layer]->Prepare(batches.evaluation);
  }
}

const float* CpuPasses::Value(const MemoryPlan& places, const Batch& batch, size_t value) const {
  if (places.values[value] != kNoPlace) return At(places.values[value]);
  return value < batch.features.size() ? batch.features[value].floats.data() : nullptr;
}

void CpuPasses::ConvertBytes(const MemoryPlan& places, const Batch& batch) {
  for (size_t i = 0; i < plan_.features.size(); ++i) {
    if (plan_.features[i].type != ElementType::kByte) continue;
    const std::vector<uint8_t>& bytes = batch.features[i].bytes;
    float* const floats = At(places.values[i]);
    for (size_t element = 0; element < bytes.size(); ++element) {
      floats[element] = static_cast<float>(bytes[element]);
    }
  }
}

void CpuPasses::Forward(const CpuPass& pass, const Batch& batch) {
  const MemoryPlan& places = PlacesOf(pass);
  ConvertBytes(places, batch);
  CpuPass turn = pass;
  turn.features = &batch.features;
  for (const ForwardStep& step : walk_.forward) {
    Pointers<const float*> x;
    for (const size_t input : step.inputs) x.push_back(Value(places, batch, input));
    turn.kept = At(places.kept[step.layer]);
    layers_[step.layer]->Forward(turn, x, At(places.values[step.output]));
  }
}

absl::Span<const float> CpuPasses::Output(const CpuPass& pass, const Batch& batch,
                                          size_t output) const {
  return absl::MakeConstSpan(Value(PlacesOf(pass), batch, walk_.outputs[output]),
                             batch.size * plan_.outputs[output].width);
}

float* CpuPasses::OutputGradient(size_t output) const {
  return At(training_.output_gradients[output].place);
}

void CpuPasses::AddUp(const GradientPlace& gradient, size_t count) const {
  if (gradient.sum == kNoPlace) return;
  const float* const part = At(gradient.place);
  float* const sum = At(gradient.sum);
#pragma GCC ivdep  // They may be one place.
  for (size_t i = 0; i < count; ++i) sum[i] += part[i];
}

void CpuPasses::Backward(const CpuPass& pass, const Batch& batch) {
  sums_.Begin(pass.gradients);
  CpuPass turn = pass;
  turn.features = &batch.features;
  turn.gradients = &sums_;
  for (size_t i = 0; i < walk_.outputs.size(); ++i) {
    AddUp(training_.output_gradients[i], Output(pass, batch, i).size());
  }
  for (size_t i = 0; i < walk_.backward.size(); ++i) {
    const BackwardStep& step = walk_.backward[i];
    const BackwardPlaces& places = training_.backward[i];
    Pointers<const float*> x;
    Pointers<float*> dx;
    for (const size_t input : step.inputs) x.push_back(Value(training_, batch, input));
    for (const GradientPlace& gradient : places.input_gradients) dx.push_back(At(gradient.place));
    turn.kept = At(training_.kept[step.layer]);
    layers_[step.layer]->Backward(turn, x, At(training_.values[step.output]),
                                  At(places.output_gradient), absl::MakeConstSpan(dx));
    for (size_t k = 0; k < dx.size(); ++k) {
      AddUp(places.input_gradients[k],
            batch.size * ElementCount(plan_.layers[step.layer].inputs[k]));
    }
  }
}

}  // namespace millrace::worker
