#include "worker/model/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "worker/model/layer_traits.h"
#include "worker/model/placement.h"

namespace millrace::worker {
namespace {

constexpr double kMostFloats = 0x1p48;  // Of one value.

size_t RoundUp(double floats) {
  const size_t whole = static_cast<size_t>(std::min(floats, kMostFloats));
  return (whole + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

class MemoryPlanner {
 public:
  MemoryPlanner(const ModelPlan& plan, const Walk& walk, size_t batch, bool training)
      : plan_(plan),
        walk_(walk),
        batch_(static_cast<double>(batch)),
        training_(training),
        is_narrow_(walk.values),
        last_use_(walk.values),
        values_(walk.values, kNoPlace),
        gradients_(walk.values, kNoPlace) {
    traits_.resize(plan.layers.size());
    for (const ForwardStep& step : walk.forward) {
      traits_[step.layer] = TraitsOf(plan.layers[step.layer], step.then);
      is_narrow_[step.output] = step.narrow_output;
    }
    result_.kept.assign(plan.layers.size(), kNoPlace);
  }

  MemoryPlan Run() {
    FindLastUses();
    PlaceFeatures();
    for (size_t time = 0; time < walk_.forward.size(); ++time) GoForward(time);
    if (training_) {
      for (size_t i = 0; i < walk_.outputs.size(); ++i) {
        result_.output_gradients.push_back(
            GradientAt(LossTime(), walk_.outputs[i], walk_.output_gradients[i]));
      }
      for (size_t i = 0; i < walk_.backward.size(); ++i) GoBackward(i);
    }
    result_.size = PlaceAll(&placed_);
    result_.least = MostAtOneTime(placed_);
    return ReplaceIndices();
  }

 private:
  size_t LossTime() const { return walk_.forward.size(); }
  size_t BackwardTime(size_t step) const { return LossTime() + 1 + step; }

  size_t SizeOf(size_t value) const {
    const size_t features = plan_.features.size();
    const Shape& shape =
        value < features ? plan_.features[value].shape : plan_.layers[value - features].output;
    const double elements = batch_ * static_cast<double>(ElementCount(shape));
    return RoundUp(is_narrow_[value] ? std::ceil(elements / 2) : elements);
  }

  void FindLastUses() {
    for (size_t time = 0; time < walk_.forward.size(); ++time) {
      const ForwardStep& step = walk_.forward[time];
      last_use_[step.output] = time;
      for (const size_t input : step.inputs) last_use_[input] = time;
    }
    for (const size_t output : walk_.outputs) last_use_[output] = LossTime();
    if (!training_) return;
    for (size_t i = 0; i < walk_.backward.size(); ++i) {
      const BackwardStep& step = walk_.backward[i];
      if (traits_[step.layer].keeps_output) last_use_[step.output] = BackwardTime(i);
      if (!traits_[step.layer].keeps_inputs) continue;
      for (const size_t input : step.inputs) last_use_[input] = BackwardTime(i);
    }
  }

  // Its index in placed_, which stands for the place until there is one.
  size_t Add(size_t size, size_t begin, size_t end) {
    placed_.push_back({size, begin, end, 0});
    return placed_.size() - 1;
  }

  void PlaceFeatures() {
    for (size_t i = 0; i < plan_.features.size(); ++i) {
      if (plan_.features[i].type != ElementType::kByte) continue;
      values_[i] = Add(SizeOf(i), 0, last_use_[i]);
    }
  }

  // Whether a step's output can stand where its first input does, which nobody needs any more.
  bool GoesInPlace(size_t time) const {
    const ForwardStep& step = walk_.forward[time];
    const size_t input = step.inputs.front();
    return traits_[step.layer].in_place && values_[input] != kNoPlace && last_use_[input] == time &&
           SizeOf(input) == SizeOf(step.output);
  }

  void GoForward(size_t time) {
    const ForwardStep& step = walk_.forward[time];
    const LayerTraits& traits = traits_[step.layer];
    if (GoesInPlace(time)) {
      values_[step.output] = values_[step.inputs.front()];
      placed_[values_[step.output]].end = last_use_[step.output];
    } else {
      values_[step.output] = Add(SizeOf(step.output), time, last_use_[step.output]);
    }
    const double kept =
        static_cast<double>(traits.kept_by_example) * batch_ + static_cast<double>(traits.kept);
    if (kept > 0) result_.kept[step.layer] = Add(RoundUp(kept), time, time);
  }

  // A step writes a gradient by `value` of its own.
  GradientPlace GradientAt(size_t time, size_t value, GradientUse use) {
    GradientPlace gradient;
    if (use == GradientUse::kNone) return gradient;
    gradient.place = Add(SizeOf(value), time, time);
    if (use == GradientUse::kFirst) {
      gradients_[value] = gradient.place;
    } else {
      gradient.sum = gradients_[value];
    }
    return gradient;
  }

  // A step writes its gradient by `value` over the one by its output, which stands at `place`.
  GradientPlace GradientInPlace(size_t place, size_t value, GradientUse use) {
    if (use == GradientUse::kAdded) return {place, gradients_[value]};
    gradients_[value] = place;
    return {place, kNoPlace};
  }

  void GoBackward(size_t index) {
    const BackwardStep& step = walk_.backward[index];
    const LayerTraits& traits = traits_[step.layer];
    BackwardPlaces places;
    places.output_gradient = gradients_[step.output];
    placed_[places.output_gradient].end = BackwardTime(index);
    if (result_.kept[step.layer] != kNoPlace) {
      placed_[result_.kept[step.layer]].end = BackwardTime(index);
    }
    bool taken = !traits.gradient_in_place;  // The place of the gradient by the output.
    bool changed = false;                    // What stands there, by an addition to itself.
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const size_t value = step.inputs[i];
      const GradientUse use = step.gradients[i];
      const bool first = use == GradientUse::kFirst;
      // What is added at once may stand there beside others; what stays there may not. A value that
      // is taken again has its gradient there: what is added to it needs a place of its own, and so
      // does all that is added afterwards.
      const bool onto_itself =
          use == GradientUse::kAdded && gradients_[value] == places.output_gradient;
      changed = changed || onto_itself;
      const bool added = use == GradientUse::kAdded && traits.passes_gradient_on && !changed;
      const bool in_place = (first && !taken && SizeOf(value) == SizeOf(step.output)) || added;
      places.input_gradients.push_back(in_place
                                           ? GradientInPlace(places.output_gradient, value, use)
                                           : GradientAt(BackwardTime(index), value, use));
      taken = taken || (first && in_place);
    }
    result_.backward.push_back(std::move(places));
  }

  void Replace(size_t* index) const {
    if (*index != kNoPlace) *index = placed_[*index].place;
  }

  void Replace(GradientPlace* gradient) const {
    Replace(&gradient->place);
    Replace(&gradient->sum);
  }

  // Places instead of indices into placed_.
  MemoryPlan ReplaceIndices() {
    result_.values = values_;
    for (size_t& value : result_.values) Replace(&value);
    for (size_t& kept : result_.kept) Replace(&kept);
    for (GradientPlace& gradient : result_.output_gradients) Replace(&gradient);
    for (BackwardPlaces& places : result_.backward) {
      Replace(&places.output_gradient);
      for (GradientPlace& gradient : places.input_gradients) Replace(&gradient);
    }
    return std::move(result_);
  }

  const ModelPlan& plan_;
  const Walk& walk_;
  const double batch_;
  const bool training_;
  std::vector<LayerTraits> traits_;  // Of each layer that has a step.
  std::vector<bool> is_narrow_;      // Of each value: it and its gradient are.
  std::vector<size_t> last_use_;     // Of each value, a time.
  // Indices into placed_.
  std::vector<size_t> values_;
  std::vector<size_t> gradients_;
  std::vector<Placed> placed_;
  MemoryPlan result_;
};

}  // namespace

MemoryPlan PlanMemory(const ModelPlan& plan, const Walk& walk, size_t batch, bool training) {
  return MemoryPlanner(plan, walk, batch, training).Run();
}

}  // namespace millrace::worker
