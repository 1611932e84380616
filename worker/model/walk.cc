#include "worker/model/walk.h"

#include <algorithm>

#include "worker/model/layer_plan.h"
#include "worker/model/layer_traits.h"

namespace millrace::worker {
namespace {

// Whether devices that fuse apply ReLU within this layer's step.
bool TakesRelu(const LayerPlan& layer) {
  if (layer.spec.has_batch_normalization()) return true;
  return layer.spec.has_add() && layer.inputs.size() == 2 && !Broadcasts(layer);
}

bool IsRelu(const LayerPlan& layer) {
  return layer.spec.has_activation() && layer.spec.activation().function() == RELU;
}

// Whether it may give a narrow value: the gradient by what its function takes must follow from the
// rounded output as well.
bool CanGiveNarrow(const LayerPlan& layer) {
  if (!layer.spec.has_dense()) return false;
  const Activation last = LastActivation(layer.spec);
  return last == LINEAR || last == RELU;
}

// How many layers, and outputs of the model, take what a layer gives.
std::vector<size_t> ReadersOfLayers(const ModelPlan& plan) {
  std::vector<size_t> readers(plan.layers.size());
  for (const LayerPlan& layer : plan.layers) {
    for (const Source& source : layer.sources) {
      if (source.kind == Source::kLayer) ++readers[source.index];
    }
  }
  for (const OutputPlan& output : plan.outputs) ++readers[output.layer];
  return readers;
}

class WalkPlanner {
 public:
  WalkPlanner(const ModelPlan& plan, bool for_gpu)
      : plan_(plan),
        then_(plan.layers.size(), LINEAR),
        is_fused_(plan.layers.size()),
        value_(plan.layers.size()),
        wanted_(plan.features.size() + plan.layers.size()),
        begun_(wanted_.size()),
        for_gpu_(for_gpu) {
    walk_.values = wanted_.size();
    walk_.variable_uses.resize(plan.variables.size());
  }

  Walk Run() {
    if (for_gpu_) Fuse();
    for (const size_t layer : plan_.order) GoForward(layer);
    for (const OutputPlan& output : plan_.outputs) {
      walk_.outputs.push_back(value_[output.layer]);
      walk_.output_gradients.push_back(UseOf(value_[output.layer]));
    }
    if (for_gpu_ && plan_.precision == PrecisionSpec::BFLOAT16) MarkNarrow();
    for (size_t i = walk_.forward.size(); i-- > 0;) {
      if (wanted_[walk_.forward[i].output]) GoBackward(walk_.forward[i]);
    }
    return std::move(walk_);
  }

 private:
  void Fuse() {
    const std::vector<size_t> readers = ReadersOfLayers(plan_);
    for (size_t layer = 0; layer < plan_.layers.size(); ++layer) {
      if (!IsRelu(plan_.layers[layer])) continue;
      const Source& source = plan_.layers[layer].sources.front();
      if (source.kind != Source::kLayer || readers[source.index] > 1) continue;
      if (!TakesRelu(plan_.layers[source.index])) continue;
      then_[source.index] = RELU;
      is_fused_[layer] = true;
    }
  }

  size_t ValueOf(const Source& source) const {
    return source.kind == Source::kFeature ? source.index : value_[source.index];
  }

  void GoForward(size_t layer) {
    const LayerPlan& plan = plan_.layers[layer];
    if (is_fused_[layer] || TraitsOf(plan).is_view) {
      value_[layer] = ValueOf(plan.sources.front());
      return;
    }
    ForwardStep step;
    step.layer = layer;
    step.then = then_[layer];
    step.output = value_[layer] = ValueOfLayer(plan_, layer);
    bool wanted = IsTrained(plan);
    for (const Source& source : plan.sources) {
      step.inputs.push_back(ValueOf(source));
      wanted = wanted || wanted_[step.inputs.back()];
    }
    wanted_[step.output] = wanted;
    walk_.forward.push_back(std::move(step));
  }

  // REQUIRES: all forward steps and outputs are there.
  void MarkNarrow() {
    std::vector<size_t> readers(walk_.values);
    std::vector<ForwardStep*> maker(walk_.values);
    for (const size_t output : walk_.outputs) ++readers[output];
    for (ForwardStep& step : walk_.forward) {
      maker[step.output] = &step;
      for (const size_t input : step.inputs) ++readers[input];
    }
    for (ForwardStep& step : walk_.forward) {
      if (!plan_.layers[step.layer].spec.has_dense()) continue;
      const size_t input = step.inputs.front();
      if (maker[input] == nullptr || readers[input] > 1) continue;
      if (!CanGiveNarrow(plan_.layers[maker[input]->layer])) continue;
      maker[input]->narrow_output = step.narrow_input = true;
    }
  }

  GradientUse UseOf(size_t value) {
    if (!wanted_[value]) return GradientUse::kNone;
    const GradientUse use = begun_[value] ? GradientUse::kAdded : GradientUse::kFirst;
    begun_[value] = true;
    return use;
  }

  void GoBackward(const ForwardStep& forward) {
    BackwardStep step = {forward.layer, forward.inputs, forward.output, {}, forward.then};
    for (const size_t input : step.inputs) step.gradients.push_back(UseOf(input));
    walk_.backward.push_back(std::move(step));
    const LayerPlan& plan = plan_.layers[forward.layer];
    if (!IsTrained(plan)) return;
    for (const int variable : plan.variables) {
      if (variable >= 0) ++walk_.variable_uses[variable];
    }
  }

  const ModelPlan& plan_;
  Walk walk_;
  std::vector<Activation> then_;  // Of each layer.
  std::vector<bool> is_fused_;    // Of each layer: whether another one's step has it.
  std::vector<size_t> value_;     // Of each layer.
  std::vector<bool> wanted_;      // Of each value: whether its gradient is.
  std::vector<bool> begun_;       // And whether a part of it was given.
  const bool for_gpu_;
};

}  // namespace

bool IsTrained(const LayerPlan& layer) {
  return layer.trainable && std::any_of(layer.variables.begin(), layer.variables.end(),
                                        [](int variable) { return variable >= 0; });
}

Walk PlanWalk(const ModelPlan& plan, bool for_gpu) { return WalkPlanner(plan, for_gpu).Run(); }

}  // namespace millrace::worker
