#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {

absl::Status PlanDense(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Dense* dense = layer->spec.mutable_dense();
  if (layer->input().size() != 1) {
    return Invalid("dense takes one dimension, its input is ", ShapeString(layer->input()),
                   "; put a flatten layer before it");
  }
  if (dense->units() == 0) return Invalid("units is 0; it must be at least 1");
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", dense->activation()));
  layer->output = {dense->units()};
  const Shape kernel = {layer->input()[0], dense->units()};
  return AddKernelAndBias(kernel, dense, layer, variables);
}

}  // namespace millrace::worker
