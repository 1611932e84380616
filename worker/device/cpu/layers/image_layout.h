// How oneDNN is told of images and of windows over them.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_IMAGE_LAYOUT_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_IMAGE_LAYOUT_H_

#include <cstdint>

#include "google/protobuf/repeated_field.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "protos/model.pb.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// A batch of images [height, width, channels], channels last in memory.
dnnl::memory::desc ImageLayout(int64_t batch, const Shape& image);

// Height and width of each, as oneDNN takes them.
struct Windows {
  dnnl::memory::dims size;
  dnnl::memory::dims strides;
  dnnl::memory::dims pad_before;
  dnnl::memory::dims pad_after;
};

Windows MakeWindows(const Shape& image, const google::protobuf::RepeatedField<uint32_t>& size,
                    const google::protobuf::RepeatedField<uint32_t>& strides, Padding padding);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_IMAGE_LAYOUT_H_
