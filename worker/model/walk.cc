#include "worker/model/walk.h"

#include <algorithm>

#include "worker/model/layer_traits.h"

namespace millrace::worker {
namespace {

class WalkPlanner {
 public:
  explicit WalkPlanner(const ModelPlan& plan)
      : plan_(plan),
        value_(plan.layers.size()),
        wanted_(plan.features.size() + plan.layers.size()),
        begun_(wanted_.size()) {
    walk_.values = wanted_.size();
    walk_.variable_uses.resize(plan.variables.size());
  }

  Walk Run() {
    for (const size_t layer : plan_.order) GoForward(layer);
    for (const OutputPlan& output : plan_.outputs) {
      walk_.outputs.push_back(value_[output.layer]);
      walk_.output_gradients.push_back(UseOf(value_[output.layer]));
    }
    for (size_t i = walk_.forward.size(); i-- > 0;) {
      if (wanted_[walk_.forward[i].output]) GoBackward(walk_.forward[i]);
    }
    return std::move(walk_);
  }

 private:
  size_t ValueOf(const Source& source) const {
    return source.kind == Source::kFeature ? source.index : value_[source.index];
  }

  void GoForward(size_t layer) {
    const LayerPlan& plan = plan_.layers[layer];
    if (TraitsOf(plan).is_view) {
      value_[layer] = ValueOf(plan.sources.front());
      return;
    }
    ForwardStep step;
    step.layer = layer;
    step.output = value_[layer] = ValueOfLayer(plan_, layer);
    bool wanted = IsTrained(plan);
    for (const Source& source : plan.sources) {
      step.inputs.push_back(ValueOf(source));
      wanted = wanted || wanted_[step.inputs.back()];
    }
    wanted_[step.output] = wanted;
    walk_.forward.push_back(std::move(step));
  }

  GradientUse UseOf(size_t value) {
    if (!wanted_[value]) return GradientUse::kNone;
    const GradientUse use = begun_[value] ? GradientUse::kAdded : GradientUse::kFirst;
    begun_[value] = true;
    return use;
  }

  void GoBackward(const ForwardStep& forward) {
    BackwardStep step = {forward.layer, forward.inputs, forward.output, {}};
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
  std::vector<size_t> value_;  // Of each layer.
  std::vector<bool> wanted_;   // Of each value: whether its gradient is.
  std::vector<bool> begun_;    // And whether a part of it was given.
};

}  // namespace

bool IsTrained(const LayerPlan& layer) {
  return layer.trainable && std::any_of(layer.variables.begin(), layer.variables.end(),
                                        [](int variable) { return variable >= 0; });
}

Walk PlanWalk(const ModelPlan& plan) { return WalkPlanner(plan).Run(); }

}  // namespace millrace::worker
