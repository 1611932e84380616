#include <string>

#include "worker/device/cuda/kernels/windows.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

void CheckAtMost(const char* what, int64_t value, int64_t most) {
  if (value <= most) return;
  throw Error(Error::kOther, std::string(what) + ": " + std::to_string(value) +
                                 "; on a GPU at most " + std::to_string(most));
}

WindowAxis AxisOf(const WindowDescription& description, size_t axis) {
  const int64_t reach = (description.size[axis] - 1) * description.dilation[axis] + 1;
  CheckAtMost("positions from the first to the last that a window sees", reach, int64_t{1} << 29);
  WindowAxis result;
  result.input = static_cast<int>(description.input[axis]);
  result.output = static_cast<int>(description.output[axis]);
  result.size = static_cast<int>(description.size[axis]);
  result.stride = static_cast<int>(description.strides[axis]);
  result.dilation = static_cast<int>(description.dilation[axis]);
  result.pad_before = static_cast<int>(description.pad_before[axis]);
  return result;
}

int64_t Elements(const std::array<int64_t, 3>& image) { return image[0] * image[1] * image[2]; }

}  // namespace

Windows MakeWindows(const WindowDescription& description) {
  CheckAtMost("elements of an image", Elements(description.input), int64_t{1} << 28);
  CheckAtMost("elements of an image", Elements(description.output), int64_t{1} << 28);
  Windows windows;
  windows.rows = AxisOf(description, 0);
  windows.columns = AxisOf(description, 1);
  windows.channels = static_cast<int>(description.input[2]);
  windows.filters = static_cast<int>(description.output[2]);
  windows.groups = static_cast<int>(description.groups);
  const int64_t channels = windows.channels / windows.groups;
  const int64_t filters = windows.filters / windows.groups;
  CheckAtMost("elements of a window", windows.taps() * std::max(channels, filters),
              int64_t{1} << 30);
  return windows;
}

}  // namespace millrace::cuda
