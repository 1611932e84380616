#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {

absl::Status PlanDense(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Dense* dense = layer->spec.mutable_dense();
  if (layer->input().empty()) {
    return Invalid("dense takes one dimension or more, its input is ", ShapeString(layer->input()));
  }
  if (dense->units() == 0) return Invalid("units is 0; it must be at least 1");
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", dense->activation()));
  layer->output = layer->input();
  layer->output.back() = dense->units();
  const Shape kernel = {layer->input().back(), dense->units()};
  return AddKernelAndBias(kernel, dense, layer, variables);
}

}  // namespace millrace::worker
