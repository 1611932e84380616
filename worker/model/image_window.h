// What slides over images in a convolution or a pooling, whatever the layer's kind. Sequences count
// as images of one row.
#ifndef MILLRACE_WORKER_MODEL_IMAGE_WINDOW_H_
#define MILLRACE_WORKER_MODEL_IMAGE_WINDOW_H_

#include <array>
#include <cstdint>
#include <vector>

#include "protos/model.pb.h"
#include "worker/model/layer_plan.h"
#include "worker/model/shape.h"
#include "worker/model/window.h"

namespace millrace::worker {

// Pairs are height and width.
struct ImageWindow {
  Shape input;  // [height, width, channels]
  Shape output;
  std::array<uint64_t, 2> size = {1, 1};
  std::array<uint64_t, 2> strides = {1, 1};
  std::array<uint64_t, 2> dilation = {1, 1};
  Padding padding = VALID;
  uint64_t groups = 1;  // Of the channels, for a convolution.

  // From the first position that a window sees along an axis to the last, both included.
  uint64_t reach(size_t axis) const { return (size[axis] - 1) * dilation[axis] + 1; }
};

// REQUIRES: a convolution or a pooling of windows, planned.
ImageWindow ImageWindowOf(const LayerPlan& layer);

// As those of window.h, along one axis. REQUIRES: ranges: a dilation of 1.
WindowAxis PlaceWindows(const ImageWindow& window, size_t axis);
std::vector<WindowRange> WindowRanges(const ImageWindow& window, size_t axis);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_IMAGE_WINDOW_H_
