// PlanLayer for each kind of layer, and what several of them have in common.
#ifndef MILLRACE_WORKER_MODEL_LAYERS_PLAN_KINDS_H_
#define MILLRACE_WORKER_MODEL_LAYERS_PLAN_KINDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"
#include "worker/model/initializer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

using Numbers = google::protobuf::RepeatedField<uint32_t>;

// All as PlanLayer. REQUIRES: the layer is of the kind, and its inputs are as many as it takes.
absl::Status PlanDense(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanConv2D(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanMaxPool2D(LayerPlan* layer);
absl::Status PlanAveragePooling2D(LayerPlan* layer);
absl::Status PlanZeroPadding2D(LayerPlan* layer);
absl::Status PlanUpSampling2D(LayerPlan* layer);
absl::Status PlanGlobalPooling2D(absl::string_view kind, LayerPlan* layer);
absl::Status PlanDropout(LayerPlan* layer);
absl::Status PlanActivation(LayerPlan* layer);
absl::Status PlanFlatten(LayerPlan* layer);
absl::Status PlanReshape(LayerPlan* layer);
absl::Status PlanRescaling(LayerPlan* layer);
// Inputs of one shape, which is the output's.
absl::Status PlanElementwiseMerge(absl::string_view kind, LayerPlan* layer);
absl::Status PlanConcatenate(LayerPlan* layer);
absl::Status PlanBatchNormalization(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanLayerNormalization(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanEmbedding(LayerPlan* layer, std::vector<VariableSpec>* variables);

// `field` ends another layer: not all activations can.
absl::Status CheckActivation(absl::string_view field, Activation activation);
absl::Status CheckPadding(Padding padding);
absl::Status CheckImage(absl::string_view kind, const Shape& input);

// Makes `numbers` the height and width: they may be absent (`fallback` then; empty: there is none)
// or one number for both.
absl::Status FillPair(absl::string_view field, const Numbers& fallback, Numbers* numbers);

// The output's height and width. A SAME window of more than twice the image sees nothing more.
absl::StatusOr<Shape> SlideWindows(absl::string_view field, const Shape& input,
                                   const Numbers& window, const Numbers& strides, Padding padding);

// Of a vector, as Keras computes them: its length, both.
Fans FansOfVector(uint64_t length);

// Adds the variable NAME/`kind` to `variables`, frozen if the layer is, and its index to the
// layer's.
absl::Status AddVariable(absl::string_view kind, const Shape& shape, Initializer initializer,
                         const Fans& fans, LayerPlan* layer, std::vector<VariableSpec>* variables);

// The layer has no variable of a kind that it might have.
inline void AddNoVariable(LayerPlan* layer) { layer->variables.push_back(-1); }

// Kernel and bias of a dense layer or a convolution, whose initialisers are filled in.
template <typename Kind>
absl::Status AddKernelAndBias(const Shape& kernel_shape, const Fans& fans, Kind* kind,
                              LayerPlan* layer, std::vector<VariableSpec>* variables) {
  if (kind->kernel_initializer() == INITIALIZER_UNSPECIFIED) {
    kind->set_kernel_initializer(GLOROT_UNIFORM);
  }
  if (kind->bias_initializer() == INITIALIZER_UNSPECIFIED) kind->set_bias_initializer(ZEROS);
  layer->regularizers = {kind->kernel_regularizer(), kind->bias_regularizer()};
  MILLRACE_RETURN_IF_ERROR(
      AddVariable("kernel", kernel_shape, kind->kernel_initializer(), fans, layer, variables));
  if (kind->no_bias()) return absl::OkStatus();
  const uint64_t units = kernel_shape.back();
  return AddVariable("bias", {units}, kind->bias_initializer(), FansOfVector(units), layer,
                     variables);
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYERS_PLAN_KINDS_H_
