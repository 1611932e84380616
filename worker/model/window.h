// Where the windows of a convolution or a pooling stand, as in TensorFlow.
#ifndef MILLRACE_WORKER_MODEL_WINDOW_H_
#define MILLRACE_WORKER_MODEL_WINDOW_H_

#include <cstdint>
#include <vector>

#include "protos/model.pb.h"

namespace millrace::worker {

// Along one axis of an image.
struct WindowAxis {
  uint64_t count = 0;       // Windows: the size of the output.
  uint64_t pad_before = 0;  // Positions outside the image that the first window covers.
  uint64_t pad_after = 0;   // And the last one.
};

// `window`: from the first position that one sees to the last, both included. VALID: windows stay
// inside the image. SAME: ceil(size / stride) windows, an odd padded position at the end. CAUSAL:
// as many, of which the first ends at the first position. REQUIRES: all at least 1; VALID: window
// <= size.
WindowAxis PlaceWindows(uint64_t size, uint64_t window, uint64_t stride, Padding padding);

// Positions [begin, end) along one axis, which a window covers.
struct WindowRange {
  uint64_t begin;
  uint64_t end;
};

// Of each window, without what is outside the image. REQUIRES: as PlaceWindows.
std::vector<WindowRange> WindowRanges(uint64_t size, uint64_t window, uint64_t stride,
                                      Padding padding);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_WINDOW_H_
