#include "worker/device/cpu/layers/global_max_pooling2d.h"

#include <algorithm>
#include <cstdint>

namespace millrace::worker {

void GlobalMaxPooling2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  uint32_t* winners = reinterpret_cast<uint32_t*>(pass.kept);
  for (size_t example = 0; example < pass.batch; ++example) {
    std::copy(x, x + channels_, y);
    std::fill(winners, winners + channels_, 0);
    for (size_t pixel = 0; pixel < pixels_; ++pixel, x += channels_) {
      for (size_t c = 0; c < channels_; ++c) {
        const bool take = (x[c] > y[c]) | (x[c] != x[c]);
        y[c] = take ? x[c] : y[c];
        winners[c] = take ? static_cast<uint32_t>(pixel) : winners[c];
      }
    }
    y += channels_;
    winners += channels_;
  }
}

void GlobalMaxPooling2DLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                                       float* dy, float* dx) {
  if (dx == nullptr) return;
  const size_t elements = pixels_ * channels_;
  std::fill(dx, dx + pass.batch * elements, 0.0f);
  const uint32_t* winners = reinterpret_cast<const uint32_t*>(pass.kept);
  for (size_t example = 0; example < pass.batch; ++example, dx += elements) {
    for (size_t c = 0; c < channels_; ++c) dx[*winners++ * channels_ + c] = *dy++;
  }
}

}  // namespace millrace::worker
