// One layer with every default filled in and its shapes known.
#ifndef MILLRACE_WORKER_MODEL_LAYER_PLAN_H_
#define MILLRACE_WORKER_MODEL_LAYER_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// Limits that keep sizes and offsets far from overflow: of one example anywhere in the model (1 GiB
// of values), and of one variable (4 TiB).
inline constexpr uint64_t kMaxExampleElements = uint64_t{1} << 28;
inline constexpr uint64_t kMaxVariableElements = uint64_t{1} << 40;

struct LayerPlan {
  LayerSpec spec;  // Name, kernel_size, strides, pool_size and initialisers are filled in.
  Shape input;
  Shape output;
  // Indices into ModelPlan::variables; -1 where the layer has none.
  int kernel = -1;
  int bias = -1;
};

// Completes `layer`, whose spec and input are given and whose name is filled in: defaults, output
// shape, variables (added to `variables`). INVALID_ARGUMENT: what does not fit, and what would; the
// message does not name the layer.
absl::Status PlanLayer(LayerPlan* layer, std::vector<VariableSpec>* variables);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYER_PLAN_H_
