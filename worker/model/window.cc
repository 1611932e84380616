#include "worker/model/window.h"

namespace millrace::worker {

WindowAxis PlaceWindows(uint64_t size, uint64_t window, uint64_t stride, Padding padding) {
  WindowAxis axis;
  if (padding == VALID) {
    axis.count = (size - window) / stride + 1;
    return axis;
  }
  axis.count = (size - 1) / stride + 1;
  const uint64_t covered = (axis.count - 1) * stride + window;
  const uint64_t outside = covered > size ? covered - size : 0;
  axis.pad_before = outside / 2;
  axis.pad_after = outside - axis.pad_before;
  return axis;
}

}  // namespace millrace::worker
