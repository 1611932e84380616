#include "worker/model/window.h"

#include <algorithm>

namespace millrace::worker {

WindowAxis PlaceWindows(uint64_t size, uint64_t window, uint64_t stride, Padding padding) {
  WindowAxis axis;
  if (padding == VALID) {
    axis.count = (size - window) / stride + 1;
    return axis;
  }
  axis.count = (size - 1) / stride + 1;
  if (padding == CAUSAL) {
    axis.pad_before = window - 1;
    return axis;
  }
  const uint64_t covered = (axis.count - 1) * stride + window;
  const uint64_t outside = covered > size ? covered - size : 0;
  axis.pad_before = outside / 2;
  axis.pad_after = outside - axis.pad_before;
  return axis;
}

std::vector<WindowRange> WindowRanges(uint64_t size, uint64_t window, uint64_t stride,
                                      Padding padding) {
  const WindowAxis placed = PlaceWindows(size, window, stride, padding);
  std::vector<WindowRange> ranges;
  for (uint64_t i = 0; i < placed.count; ++i) {
    const uint64_t padded_begin = i * stride;  // Counted from the padding's first position.
    const uint64_t begin = std::max(padded_begin, placed.pad_before) - placed.pad_before;
    ranges.push_back({begin, std::min(padded_begin + window - placed.pad_before, size)});
  }
  return ranges;
}

}  // namespace millrace::worker
