// How oneDNN is told of images and of windows over them.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_IMAGE_LAYOUT_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_IMAGE_LAYOUT_H_

#include <cstdint>

#include "oneapi/dnnl/dnnl.hpp"
#include "worker/model/image_window.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// A batch of images [height, width, channels], channels last in memory.
dnnl::memory::desc ImageLayout(int64_t batch, const Shape& image);

// Height and width of each, as oneDNN takes them.
struct Windows {
  dnnl::memory::dims size;
  dnnl::memory::dims strides;
  dnnl::memory::dims dilation;  // Counted from 0.
  dnnl::memory::dims pad_before;
  dnnl::memory::dims pad_after;
};

Windows MakeWindows(const ImageWindow& window);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_IMAGE_LAYOUT_H_
