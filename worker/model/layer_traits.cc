#include "worker/model/layer_traits.h"

#include <algorithm>

namespace millrace::worker {
namespace {

// Input times kernel, plus bias, and then an activation whose gradient follows from the output.
LayerTraits TraitsOfProduct(const LayerPlan& layer) {
  LayerTraits traits;
  traits.keeps_inputs = layer.trainable;
  traits.keeps_output = LastActivation(layer.spec) != LINEAR;
  return traits;
}

LayerTraits TraitsOfActivation(Activation function) {
  LayerTraits traits;
  traits.is_view = function == LINEAR;
  traits.in_place = true;
  traits.gradient_in_place = true;
  traits.keeps_inputs = function >= LEAKY_RELU;
  traits.keeps_output = !traits.keeps_inputs;
  return traits;
}

LayerTraits TraitsOfLayerNormalization(const LayerPlan& layer) {
  LayerTraits traits;
  traits.keeps_inputs = true;
  traits.gradient_in_place = true;
  // Mean and 1 / deviation of each row.
  traits.kept_by_example = 2 * ElementCount(layer.output) / layer.output.back();
  return traits;
}

LayerTraits KeepsInputs() {
  LayerTraits traits;
  traits.keeps_inputs = true;
  return traits;
}

LayerTraits TraitsOfMaxPooling(const LayerPlan& layer) {
  LayerTraits traits;
  traits.kept_by_example = ElementCount(layer.output);  // Where each came from.
  return traits;
}

LayerTraits TraitsOfBatchNormalization(const LayerPlan& layer) {
  LayerTraits traits;
  traits.keeps_inputs = layer.trainable;
  traits.gradient_in_place = true;
  traits.kept = layer.trainable ? 2 * layer.output.back() : 0;  // Mean and variance.
  return traits;
}

LayerTraits View() {
  LayerTraits traits;
  traits.is_view = true;
  return traits;
}

// Nothing of the values is needed for the gradient.
LayerTraits InPlace() {
  LayerTraits traits;
  traits.in_place = true;
  traits.gradient_in_place = true;
  return traits;
}

LayerTraits TraitsOfPermute(const Permute& permute) {
  LayerTraits traits;
  traits.is_view = std::is_sorted(permute.dims().begin(), permute.dims().end());
  return traits;
}

LayerTraits TraitsOfAdd() {
  LayerTraits traits = InPlace();
  traits.passes_gradient_on = true;
  return traits;
}

LayerTraits TraitsOfLayer(const LayerPlan& layer) {
  switch (layer.spec.kind_case()) {
    case LayerSpec::kDense:
    case LayerSpec::kConv2D:
    case LayerSpec::kDepthwiseConv2D:
    case LayerSpec::kConv1D:
      return TraitsOfProduct(layer);
    case LayerSpec::kMaxPool2D:
    case LayerSpec::kMaxPool1D:
    case LayerSpec::kGlobalMaxPooling2D:
    case LayerSpec::kGlobalMaxPooling1D:
      return TraitsOfMaxPooling(layer);
    case LayerSpec::kFlatten:
    case LayerSpec::kReshape:
      return View();
    case LayerSpec::kPermute:
      return TraitsOfPermute(layer.spec.permute());
    case LayerSpec::kDropout:
    case LayerSpec::kRescaling:
      return InPlace();
    case LayerSpec::kSubtract:
    case LayerSpec::kAverage:
      return Broadcasts(layer) ? LayerTraits() : InPlace();
    case LayerSpec::kMultiply:
    case LayerSpec::kMaximum:
      return KeepsInputs();
    case LayerSpec::kLayerNormalization:
      return TraitsOfLayerNormalization(layer);
    case LayerSpec::kActivation:
      return TraitsOfActivation(layer.spec.activation().function());
    case LayerSpec::kAdd:
      return Broadcasts(layer) ? LayerTraits() : TraitsOfAdd();
    case LayerSpec::kBatchNormalization:
      return TraitsOfBatchNormalization(layer);
    case LayerSpec::kConcatenate:
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalAveragePooling1D:
    case LayerSpec::kAveragePooling2D:
    case LayerSpec::kAveragePooling1D:
    case LayerSpec::kZeroPadding2D:
    case LayerSpec::kUpSampling2D:
    case LayerSpec::kEmbedding:
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return {};
}

}  // namespace

LayerTraits TraitsOf(const LayerPlan& layer, Activation then) {
  LayerTraits traits = TraitsOfLayer(layer);
  // A batch normalization that keeps its input makes of that again what was below 0.
  const bool makes_it_again = layer.spec.has_batch_normalization() && traits.keeps_inputs;
  if (then != LINEAR && !makes_it_again) traits.keeps_output = true;
  return traits;
}

}  // namespace millrace::worker
