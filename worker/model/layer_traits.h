// What a layer's passes need of memory, whatever device they run on.
#ifndef MILLRACE_WORKER_MODEL_LAYER_TRAITS_H_
#define MILLRACE_WORKER_MODEL_LAYER_TRAITS_H_

#include <cstdint>

#include "protos/model.pb.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// A device's kernels may not ask for more than this allows them.
struct LayerTraits {
  // The output is the first input, seen with another shape: nothing is computed.
  bool is_view = false;
  // Forwards, the output may take the first input's place.
  bool in_place = false;
  // Backwards, the gradient by one of the inputs may take the place of that by the output.
  bool gradient_in_place = false;
  // The gradient by each input is that by the output.
  bool passes_gradient_on = false;
  // What the backward pass takes beside the gradient by the output.
  bool keeps_inputs = false;
  bool keeps_output = false;
  // Memory of its own that the backward pass finds as the forward pass left it, in floats: for each
  // example, and once.
  uint64_t kept_by_example = 0;
  uint64_t kept = 0;
};

// `then`: what is applied to the output in the same step (ForwardStep::then).
// REQUIRES: the plan is checked.
LayerTraits TraitsOf(const LayerPlan& layer, Activation then = LINEAR);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYER_TRAITS_H_
