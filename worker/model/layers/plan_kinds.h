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
absl::Status PlanDepthwiseConv2D(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanConv1D(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanMaxPool2D(LayerPlan* layer);
absl::Status PlanAveragePooling2D(LayerPlan* layer);
absl::Status PlanMaxPool1D(LayerPlan* layer);
absl::Status PlanAveragePooling1D(LayerPlan* layer);
absl::Status PlanZeroPadding2D(LayerPlan* layer);
absl::Status PlanUpSampling2D(LayerPlan* layer);
absl::Status PlanGlobalPooling2D(absl::string_view kind, LayerPlan* layer);
absl::Status PlanGlobalPooling1D(absl::string_view kind, LayerPlan* layer);
absl::Status PlanDropout(LayerPlan* layer);
absl::Status PlanActivation(LayerPlan* layer);
absl::Status PlanFlatten(LayerPlan* layer);
absl::Status PlanReshape(LayerPlan* layer);
absl::Status PlanPermute(LayerPlan* layer);
absl::Status PlanRescaling(LayerPlan* layer);
// The output's shape is that of all inputs, each repeated along dimensions of 1.
absl::Status PlanElementwiseMerge(absl::string_view kind, LayerPlan* layer);
absl::Status PlanConcatenate(LayerPlan* layer);
absl::Status PlanBatchNormalization(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanLayerNormalization(LayerPlan* layer, std::vector<VariableSpec>* variables);
absl::Status PlanEmbedding(LayerPlan* layer, std::vector<VariableSpec>* variables);

// `field` ends another layer: not all activations can.
absl::Status CheckActivation(absl::string_view field, Activation activation);
// `causal`: whether the layer takes CAUSAL.
absl::Status CheckPadding(Padding padding, bool causal);
absl::Status CheckImage(absl::string_view kind, const Shape& input);
absl::Status CheckSequence(absl::string_view kind, const Shape& input);

// A field of one number.
Numbers OneNumber(uint32_t number);

// Makes `numbers` the height and width: they may be absent (`fallback` then; empty: there is none)
// or one number for both.
absl::Status FillPair(absl::string_view field, const Numbers& fallback, Numbers* numbers);

// Of a convolution or a pooling: height and width of each, or for sequences one number.
struct WindowFields {
  Numbers size;
  Numbers strides;
  Numbers dilation;
  Padding padding = VALID;
};

// The output's shape but the channels. A SAME window of more than twice the image, and a CAUSAL one
// of more than the sequence, sees nothing more. `field`: what the windows' size is called.
// REQUIRES: the padding is checked.
absl::StatusOr<Shape> SlideWindows(absl::string_view field, const Shape& input,
                                   const WindowFields& windows);

// Of a vector, as Keras computes them: its length, both.
Fans FansOfVector(uint64_t length);

// Of a kernel [..., in, out] likewise: how many elements each number of `out` sees, and each of
// `in`.
Fans FansOfKernel(const Shape& kernel);

// Adds the variable NAME/`kind` to `variables`, frozen if the layer is, and its index to the
// layer's.
absl::Status AddVariable(absl::string_view kind, const Shape& shape, Initializer initializer,
                         const Fans& fans, LayerPlan* layer, std::vector<VariableSpec>* variables);

// The layer has no variable of a kind that it might have.
inline void AddNoVariable(LayerPlan* layer) { layer->variables.push_back(-1); }

// The bias of a layer whose kernel was added, if it has one; its initialiser is filled in.
template <typename Kind>
absl::Status AddBias(uint64_t units, Kind* kind, LayerPlan* layer,
                     std::vector<VariableSpec>* variables) {
  if (kind->bias_initializer() == INITIALIZER_UNSPECIFIED) kind->set_bias_initializer(ZEROS);
  if (kind->no_bias()) return absl::OkStatus();
  return AddVariable("bias", {units}, kind->bias_initializer(), FansOfVector(units), layer,
                     variables);
}

// Kernel and bias of a dense layer or a convolution, whose initialisers are filled in.
template <typename Kind>
absl::Status AddKernelAndBias(const Shape& kernel, Kind* kind, LayerPlan* layer,
                              std::vector<VariableSpec>* variables) {
  if (kind->kernel_initializer() == INITIALIZER_UNSPECIFIED) {
    kind->set_kernel_initializer(GLOROT_UNIFORM);
  }
  layer->regularizers = {kind->kernel_regularizer(), kind->bias_regularizer()};
  MILLRACE_RETURN_IF_ERROR(AddVariable("kernel", kernel, kind->kernel_initializer(),
                                       FansOfKernel(kernel), layer, variables));
  return AddBias(kernel.back(), kind, layer, variables);
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYERS_PLAN_KINDS_H_
