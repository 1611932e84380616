#include "worker/model/flops.h"

#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

double Elements(const Shape& shape) { return static_cast<double>(ElementCount(shape)); }

}  // namespace

double ForwardFlops(const LayerPlan& layer) {
  switch (layer.spec.kind_case()) {
    case LayerSpec::kDense:
      return 2 * Elements(layer.input()) * Elements(layer.output);
    case LayerSpec::kConv2D: {
      const Conv2D& conv = layer.spec.conv2d();
      const double window = static_cast<double>(conv.kernel_size(0)) * conv.kernel_size(1);
      return 2 * window * static_cast<double>(layer.input().back()) * Elements(layer.output);
    }
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
