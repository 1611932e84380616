#include "worker/model/flops.h"

#include "worker/model/image_window.h"
#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

double Elements(const Shape& shape) { return static_cast<double>(ElementCount(shape)); }

double ConvolutionFlops(const ImageWindow& conv, double outputs) {
  const double window = static_cast<double>(conv.size[0]) * static_cast<double>(conv.size[1]);
  return 2 * window * static_cast<double>(conv.input[2] / conv.groups) * outputs;
}

}  // namespace

double ForwardFlops(const LayerPlan& layer) {
  switch (layer.spec.kind_case()) {
    case LayerSpec::kDense:
      return 2 * Elements(layer.input()) * static_cast<double>(layer.output.back());
    case LayerSpec::kConv2D:
    case LayerSpec::kDepthwiseConv2D:
    case LayerSpec::kConv1D:
      return ConvolutionFlops(ImageWindowOf(layer), Elements(layer.output));
    case LayerSpec::kAdd:
    case LayerSpec::kSubtract:
    case LayerSpec::kMultiply:
    case LayerSpec::kAverage:
    case LayerSpec::kMaximum:
      return static_cast<double>(layer.inputs.size()) * Elements(layer.output);
    case LayerSpec::kFlatten:
    case LayerSpec::kReshape:
      return 0;
    case LayerSpec::kEmbedding:
      return Elements(layer.output);
    default:
      break;
  }
  double taken = 0;
  for (const Shape& input : layer.inputs) taken += Elements(input);
  return taken;
}

}  // namespace millrace::worker
