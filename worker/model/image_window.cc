#include "worker/model/image_window.h"

#include "glog/logging.h"
#include "google/protobuf/repeated_field.h"

namespace millrace::worker {
namespace {

using Pair = std::array<uint64_t, 2>;

Pair PairOf(const google::protobuf::RepeatedField<uint32_t>& numbers) {
  return {numbers[0], numbers[1]};
}

Shape AsImage(const Shape& shape) {
  return shape.size() == 2 ? Shape{1, shape[0], shape[1]} : shape;
}

template <typename Pool>
void TakePool(const Pool& pool, ImageWindow* window) {
  window->size = PairOf(pool.pool_size());
  window->strides = PairOf(pool.strides());
  window->padding = pool.padding();
}

template <typename Pool>
void TakeSequencePool(const Pool& pool, ImageWindow* window) {
  window->size[1] = pool.pool_size();
  window->strides[1] = pool.strides();
  window->padding = pool.padding();
}

template <typename Conv>
void TakeConvolution(const Conv& conv, uint64_t groups, ImageWindow* window) {
  window->size = PairOf(conv.kernel_size());
  window->strides = PairOf(conv.strides());
  window->dilation = PairOf(conv.dilation_rate());
  window->padding = conv.padding();
  window->groups = groups;
}

void TakeSequenceConvolution(const Conv1D& conv, ImageWindow* window) {
  window->size[1] = conv.kernel_size();
  window->strides[1] = conv.strides();
  window->dilation[1] = conv.dilation_rate();
  window->padding = conv.padding();
  window->groups = conv.groups();
}

}  // namespace

ImageWindow ImageWindowOf(const LayerPlan& layer) {
  const LayerSpec& spec = layer.spec;
  ImageWindow window;
  window.input = AsImage(layer.input());
  window.output = AsImage(layer.output);
  switch (spec.kind_case()) {
    case LayerSpec::kConv2D:
      TakeConvolution(spec.conv2d(), spec.conv2d().groups(), &window);
      break;
    case LayerSpec::kDepthwiseConv2D:
      TakeConvolution(spec.depthwise_conv2d(), window.input[2], &window);
      break;
    case LayerSpec::kConv1D:
      TakeSequenceConvolution(spec.conv1d(), &window);
      break;
    case LayerSpec::kMaxPool2D:
      TakePool(spec.max_pool2d(), &window);
      break;
    case LayerSpec::kAveragePooling2D:
      TakePool(spec.average_pooling2d(), &window);
      break;
    case LayerSpec::kMaxPool1D:
      TakeSequencePool(spec.max_pool1d(), &window);
      break;
    case LayerSpec::kAveragePooling1D:
      TakeSequencePool(spec.average_pooling1d(), &window);
      break;
    default:
      LOG(FATAL) << "No window slides in " << spec.ShortDebugString();
  }
  return window;
}

WindowAxis PlaceWindows(const ImageWindow& window, size_t axis) {
  return PlaceWindows(window.input[axis], window.reach(axis), window.strides[axis], window.padding);
}

std::vector<WindowRange> WindowRanges(const ImageWindow& window, size_t axis) {
  return WindowRanges(window.input[axis], window.size[axis], window.strides[axis], window.padding);
}

}  // namespace millrace::worker
