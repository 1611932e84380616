// A ModelSpec with every default filled in and every shape known: all that a device needs to
// compile it.
#ifndef MILLRACE_WORKER_MODEL_MODEL_PLAN_H_
#define MILLRACE_WORKER_MODEL_MODEL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"

namespace millrace::worker {

// The shape of one example, without the batch dimension.
using Shape = std::vector<uint64_t>;

struct LayerPlan {
  LayerSpec spec;   // Name, kernel_size, strides, pool_size and initialisers are filled in.
  Shape input;
  Shape output;
  // Indices into ModelPlan::variables; -1 where the layer has none.
  int kernel = -1;
  int bias = -1;
};

struct ModelPlan {
  std::vector<LayerPlan> layers;
  Loss loss = LOSS_UNSPECIFIED;
  bool accuracy = false;
  bool auc = false;
  std::vector<VariableSpec> variables;  // In the order of the layers, kernel before bias.
};

// Checks `spec` against examples of shape `input` with labels below `label_count` and infers every
// shape. INVALID_ARGUMENT: "model.layers[2] 'dense': ..." with what does not fit and what would.
absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec, const Shape& input, int32_t label_count);

// Elements of a shape.
uint64_t ElementCount(const Shape& shape);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_MODEL_PLAN_H_
