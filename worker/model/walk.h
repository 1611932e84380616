// The way through a model, forwards and backwards, whatever device it runs on: which layer comes
// when, what it takes, and which gradients are asked of it.
//
// Values are numbered: the features of the data come first, then the outputs of the layers. A layer
// that is a view has no value of its own and no step: whoever takes its output takes its input's.
//
// A device may apply an activation to what another layer gives while it writes that, which saves
// reading and writing it again. Such an activation has no step of its own either: it is a part of
// the layer's step, whose value is the activation's.
//
// A device whose products are of bfloat16 may keep a value, and its gradient, in bfloat16 where one
// dense layer gives it, without a function or with ReLU, and one other dense layer alone takes it:
// that would round it anyway. Such values are called narrow; all others are of float32.
//
// The backward pass goes no further down than to the lowest layers that are trained. Where several
// layers take one value, its gradient is the sum of what they give, added up in the order of the
// backward pass, so that the same model has the same bits everywhere. It is whole before the step
// of the layer that made the value, since that layer's step comes after those of all that take it.
#ifndef MILLRACE_WORKER_MODEL_WALK_H_
#define MILLRACE_WORKER_MODEL_WALK_H_

#include <cstddef>
#include <vector>

#include "protos/model.pb.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// What becomes of the gradient that a step gives by one of its inputs.
enum class GradientUse {
  kNone,   // It is not asked for.
  kFirst,  // It is the first of the value, or the only one.
  kAdded,  // It is added to what is there.
};

// A layer's turn. Inputs and output are values.
struct ForwardStep {
  size_t layer = 0;
  std::vector<size_t> inputs;
  size_t output = 0;
  Activation then = LINEAR;    // Applied to what the layer gives. LINEAR or RELU.
  bool narrow_input = false;   // The input and its gradient are narrow.
  bool narrow_output = false;  // The same of the output.
};

struct BackwardStep {
  size_t layer = 0;
  std::vector<size_t> inputs;
  size_t output = 0;
  std::vector<GradientUse> gradients;  // By each input.
  Activation then = LINEAR;            // As the forward step's.
};

struct Walk {
  size_t values = 0;  // How many.
  std::vector<ForwardStep> forward;
  std::vector<size_t> outputs;                // The values that are the model's outputs.
  std::vector<GradientUse> output_gradients;  // Of the losses, by each of them.
  std::vector<BackwardStep> backward;
  // Of each variable: how many backward steps give a gradient of it. The last one's makes the sum
  // final.
  std::vector<size_t> variable_uses;
};

// `for_gpu`: a ReLU that alone takes what a batch normalization gives, or a sum of two values of
// one shape, is a part of that layer's step; and where the plan's precision is BFLOAT16, values are
// narrow that may be.
Walk PlanWalk(const ModelPlan& plan, bool for_gpu = false);

// Whether a backward step gives gradients of this layer's variables.
bool IsTrained(const LayerPlan& layer);

// The number of a layer's output among the values, if it is not a view.
inline size_t ValueOfLayer(const ModelPlan& plan, size_t layer) {
  return plan.features.size() + layer;
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_WALK_H_
