#include "worker/device/cpu/layers/global_average_pooling2d.h"

#include <algorithm>

namespace millrace::worker {

void GlobalAveragePooling2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const float pixels = static_cast<float>(pixels_);
  for (size_t example = 0; example < pass.batch; ++example) {
    std::fill(y, y + channels_, 0.0f);
    for (size_t pixel = 0; pixel < pixels_; ++pixel) {
      for (size_t c = 0; c < channels_; ++c) y[c] += x[c];
      x += channels_;
    }
    for (size_t c = 0; c < channels_; ++c) y[c] /= pixels;
    y += channels_;
  }
}

void GlobalAveragePooling2DLayer::Backward(const CpuPass& pass, const float* /*x*/,
                                           const float* /*y*/, float* dy, float* dx) {
  if (dx == nullptr) return;
  const float pixels = static_cast<float>(pixels_);
  for (size_t example = 0; example < pass.batch; ++example) {
    for (size_t pixel = 0; pixel < pixels_; ++pixel) {
      for (size_t c = 0; c < channels_; ++c) dx[c] = dy[c] / pixels;
      dx += channels_;
    }
    dy += channels_;
  }
}

}  // namespace millrace::worker
