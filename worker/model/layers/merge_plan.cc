#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {

namespace {

// The dimension of `shape` at `place` from the last one; one that it lacks is 1.
uint64_t FromLast(const Shape& shape, size_t place) {
  return place < shape.size() ? shape[shape.size() - 1 - place] : 1;
}

// Makes `output` large enough for `input` too, as NumPy does. False: they do not fit.
bool Broadcast(const Shape& input, Shape* output) {
  Shape both(std::max(input.size(), output->size()));
  for (size_t place = 0; place < both.size(); ++place) {
    const uint64_t a = FromLast(*output, place);
    const uint64_t b = FromLast(input, place);
    if (a != b && a != 1 && b != 1) return false;
    both[both.size() - 1 - place] = std::max(a, b);
  }
  *output = std::move(both);
  return true;
}

}  // namespace

absl::Status PlanElementwiseMerge(absl::string_view kind, LayerPlan* layer) {
  layer->output = layer->inputs.front();
  for (size_t i = 1; i < layer->inputs.size(); ++i) {
    if (Broadcast(layer->inputs[i], &layer->output)) continue;
    return Invalid(kind, " takes inputs whose dimensions, counted from the last, are equal or 1; ",
                   "those before are ", ShapeString(layer->output), " together, '",
                   layer->spec.inputs(static_cast<int>(i)), "' is ", ShapeString(layer->inputs[i]));
  }
  return absl::OkStatus();
}

namespace {

// The dimension of an example, counted from 0.
absl::StatusOr<size_t> ConcatenatedDimension(const Concatenate& concatenate, const Shape& input) {
  const int64_t rank = static_cast<int64_t>(input.size());
  const int64_t axis = concatenate.axis();
  if (axis >= 1 && axis <= rank) return static_cast<size_t>(axis - 1);
  if (axis < 0 && axis >= -rank) return static_cast<size_t>(axis + rank);
  return Invalid("axis is ", axis, ", its inputs are like ", ShapeString(input), "; use 1 to ",
                 rank, " or -", rank, " to -1");
}

}  // namespace

absl::Status PlanConcatenate(LayerPlan* layer) {
  Concatenate* concatenate = layer->spec.mutable_concatenate();
  if (!concatenate->has_axis()) concatenate->set_axis(-1);
  Shape& output = layer->output;
  output = layer->inputs.front();
  MILLRACE_ASSIGN_OR_RETURN(const size_t dimension, ConcatenatedDimension(*concatenate, output));
  concatenate->set_axis(static_cast<int32_t>(dimension) + 1);
  for (size_t i = 1; i < layer->inputs.size(); ++i) {
    Shape like = layer->inputs[i];
    if (like.size() == output.size()) like[dimension] = output[dimension];
    if (like != output) {
      return Invalid("concatenate takes inputs that differ along axis ", dimension + 1,
                     " alone; those before are ", ShapeString(output), " together, '",
                     layer->spec.inputs(static_cast<int>(i)), "' is ",
                     ShapeString(layer->inputs[i]));
    }
    output[dimension] += layer->inputs[i][dimension];
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
