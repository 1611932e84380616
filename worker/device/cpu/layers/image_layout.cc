#include "worker/device/cpu/layers/image_layout.h"

#include <algorithm>

#include "worker/model/window.h"

namespace millrace::worker {

dnnl::memory::desc ImageLayout(int64_t batch, const Shape& image) {
  // oneDNN names dimensions in the order batch, channels, height, width, whatever the layout.
  return dnnl::memory::desc({batch, static_cast<int64_t>(image[2]), static_cast<int64_t>(image[0]),
                             static_cast<int64_t>(image[1])},
                            dnnl::memory::data_type::f32, dnnl::memory::format_tag::nhwc);
}

Windows MakeWindows(const Shape& image, const google::protobuf::RepeatedField<uint32_t>& size,
                    const google::protobuf::RepeatedField<uint32_t>& strides, Padding padding) {
  Windows windows;
  for (int axis = 0; axis < 2; ++axis) {
    const WindowAxis placed = PlaceWindows(image[axis], size[axis], strides[axis], padding);
    windows.size.push_back(size[axis]);
    // A stride beyond the image is never taken; oneDNN computes in 32 bits with it.
    windows.strides.push_back(static_cast<int64_t>(std::min<uint64_t>(strides[axis], image[axis])));
    windows.pad_before.push_back(static_cast<int64_t>(placed.pad_before));
    windows.pad_after.push_back(static_cast<int64_t>(placed.pad_after));
  }
  return windows;
}

}  // namespace millrace::worker
