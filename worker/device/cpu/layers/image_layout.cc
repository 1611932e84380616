#include "worker/device/cpu/layers/image_layout.h"

#include <algorithm>

namespace millrace::worker {

dnnl::memory::desc ImageLayout(int64_t batch, const Shape& image) {
  // oneDNN names dimensions in the order batch, channels, height, width, whatever the layout.
  return dnnl::memory::desc({batch, static_cast<int64_t>(image[2]), static_cast<int64_t>(image[0]),
                             static_cast<int64_t>(image[1])},
                            dnnl::memory::data_type::f32, dnnl::memory::format_tag::nhwc);
}

Windows MakeWindows(const ImageWindow& window) {
  Windows windows;
  for (size_t axis = 0; axis < 2; ++axis) {
    const WindowAxis placed = PlaceWindows(window, axis);
    windows.size.push_back(static_cast<int64_t>(window.size[axis]));
    // A stride beyond the image is never taken; oneDNN computes in 32 bits with it.
    windows.strides.push_back(
        static_cast<int64_t>(std::min(window.strides[axis], window.input[axis])));
    windows.dilation.push_back(static_cast<int64_t>(window.dilation[axis]) - 1);
    windows.pad_before.push_back(static_cast<int64_t>(placed.pad_before));
    windows.pad_after.push_back(static_cast<int64_t>(placed.pad_after));
  }
  return windows;
}

}  // namespace millrace::worker
