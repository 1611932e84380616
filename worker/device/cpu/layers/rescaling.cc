#include "worker/device/cpu/layers/rescaling.h"

namespace millrace::worker {

void RescalingLayer::Forward(const CpuPass& pass, const float* x, float* y) {
#pragma GCC ivdep  // They may be one place.
  for (size_t i = 0; i < pass.batch * elements_; ++i) y[i] = x[i] * scale_ + offset_;
}

void RescalingLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                              float* dy, float* dx) {
  if (dx == nullptr) return;
#pragma GCC ivdep
  for (size_t i = 0; i < pass.batch * elements_; ++i) dx[i] = dy[i] * scale_;
}

}  // namespace millrace::worker
