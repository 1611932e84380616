#include "worker/model/layer_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {
namespace {

bool TakesSeveralInputs(const LayerSpec& spec) {
  switch (spec.kind_case()) {
    case LayerSpec::kAdd:
    case LayerSpec::kMultiply:
    case LayerSpec::kAverage:
    case LayerSpec::kMaximum:
    case LayerSpec::kConcatenate:
      return true;
    default:
      return false;
  }
}

absl::Status CheckInputCount(const LayerPlan& layer) {
  const size_t count = layer.inputs.size();
  if (layer.spec.has_subtract()) {
    if (count == 2) return absl::OkStatus();
    return Invalid("inputs has ", count, count == 1 ? " name" : " names",
                   "; subtract takes two inputs");
  }
  const bool several = TakesSeveralInputs(layer.spec);
  if (several ? count >= 2 : count == 1) return absl::OkStatus();
  return Invalid("inputs has ", count, count == 1 ? " name" : " names", "; ", LayerKind(layer.spec),
                 several ? " takes two or more inputs" : " takes one input");
}

absl::Status PlanKind(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  switch (layer->spec.kind_case()) {
    case LayerSpec::kDense:
      return PlanDense(layer, variables);
    case LayerSpec::kConv2D:
      return PlanConv2D(layer, variables);
    case LayerSpec::kDepthwiseConv2D:
      return PlanDepthwiseConv2D(layer, variables);
    case LayerSpec::kConv1D:
      return PlanConv1D(layer, variables);
    case LayerSpec::kMaxPool2D:
      return PlanMaxPool2D(layer);
    case LayerSpec::kMaxPool1D:
      return PlanMaxPool1D(layer);
    case LayerSpec::kDropout:
      return PlanDropout(layer);
    case LayerSpec::kFlatten:
      return PlanFlatten(layer);
    case LayerSpec::kActivation:
      return PlanActivation(layer);
    case LayerSpec::kAdd:
    case LayerSpec::kSubtract:
    case LayerSpec::kMultiply:
    case LayerSpec::kAverage:
    case LayerSpec::kMaximum:
      return PlanElementwiseMerge(LayerKind(layer->spec), layer);
    case LayerSpec::kConcatenate:
      return PlanConcatenate(layer);
    case LayerSpec::kBatchNormalization:
      return PlanBatchNormalization(layer, variables);
    case LayerSpec::kLayerNormalization:
      return PlanLayerNormalization(layer, variables);
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalMaxPooling2D:
      return PlanGlobalPooling2D(LayerKind(layer->spec), layer);
    case LayerSpec::kGlobalAveragePooling1D:
    case LayerSpec::kGlobalMaxPooling1D:
      return PlanGlobalPooling1D(LayerKind(layer->spec), layer);
    case LayerSpec::kAveragePooling2D:
      return PlanAveragePooling2D(layer);
    case LayerSpec::kAveragePooling1D:
      return PlanAveragePooling1D(layer);
    case LayerSpec::kZeroPadding2D:
      return PlanZeroPadding2D(layer);
    case LayerSpec::kUpSampling2D:
      return PlanUpSampling2D(layer);
    case LayerSpec::kReshape:
      return PlanReshape(layer);
    case LayerSpec::kPermute:
      return PlanPermute(layer);
    case LayerSpec::kRescaling:
      return PlanRescaling(layer);
    case LayerSpec::kEmbedding:
      return PlanEmbedding(layer, variables);
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return Invalid("has no kind; use one of ", LayerKinds());
}

}  // namespace

Activation LastActivation(const LayerSpec& layer) {
  switch (layer.kind_case()) {
    case LayerSpec::kDense:
      return layer.dense().activation();
    case LayerSpec::kConv2D:
      return layer.conv2d().activation();
    case LayerSpec::kDepthwiseConv2D:
      return layer.depthwise_conv2d().activation();
    case LayerSpec::kConv1D:
      return layer.conv1d().activation();
    case LayerSpec::kActivation:
      return layer.activation().function();
    default:
      return LINEAR;
  }
}

bool Broadcasts(const LayerPlan& layer) {
  const uint64_t elements = ElementCount(layer.output);
  return std::any_of(layer.inputs.begin(), layer.inputs.end(),
                     [&](const Shape& input) { return ElementCount(input) != elements; });
}

absl::Status PlanLayer(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  if (layer->spec.kind_case() != LayerSpec::KIND_NOT_SET) {
    MILLRACE_RETURN_IF_ERROR(CheckInputCount(*layer));
  }
  MILLRACE_RETURN_IF_ERROR(PlanKind(layer, variables));
  if (HasAtMost(layer->output, kMaxExampleElements)) return absl::OkStatus();
  return Invalid("its output would be ", ShapeString(layer->output), " for each example; at most ",
                 kMaxExampleElements, " elements are supported");
}

}  // namespace millrace::worker
