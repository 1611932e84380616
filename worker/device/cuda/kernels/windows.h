// Windows over images as kernels take them: numbers of 32 bits.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_WINDOWS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_WINDOWS_H_

#include <cstdint>

#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// Along one axis, as in WindowDescription. Window `w` sees w * stride - pad_before + tap * dilation
// for each tap below `size`, where that is inside of the input.
struct WindowAxis {
  int input = 0;
  int output = 0;
  int size = 0;
  int stride = 0;
  int dilation = 0;
  int pad_before = 0;
};

struct Windows {
  WindowAxis rows;
  WindowAxis columns;
  int channels = 0;
  int filters = 0;  // Channels of the output.
  int groups = 1;

  MILLRACE_HOST_DEVICE int64_t input_elements() const {
    return int64_t{rows.input} * columns.input * channels;
  }
  MILLRACE_HOST_DEVICE int64_t output_positions() const {
    return int64_t{rows.output} * columns.output;
  }
  MILLRACE_HOST_DEVICE int64_t taps() const { return int64_t{rows.size} * columns.size; }
};

// Throws Error where 32 bits do not do: images of 2^28 elements, windows that reach over 2^29
// positions, and channels times taps of 2^30 are the most.
Windows MakeWindows(const WindowDescription& description);

// First and last window that sees a position, without dilation; none: last < first.
struct WindowsOver {
  int first;
  int last;
};

MILLRACE_DEVICE WindowsOver WindowsThatSee(const WindowAxis& axis, int position) {
  const int padded = position + axis.pad_before;
  const int last = padded / axis.stride;
  const int before = padded - axis.size;  // Windows that start here or before have ended.
  const int first = before < 0 ? 0 : before / axis.stride + 1;
  return {first, last < axis.output ? last : axis.output - 1};
}

// Positions [begin, end) that a window sees, without dilation.
struct SeenPositions {
  int begin;
  int end;
};

MILLRACE_DEVICE SeenPositions SeenBy(const WindowAxis& axis, int window) {
  const int begin = window * axis.stride - axis.pad_before;
  const int end = begin + axis.size;
  return {begin < 0 ? 0 : begin, end < axis.input ? end : axis.input};
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_WINDOWS_H_
