#include "worker/device/cpu/layers/permute.h"

namespace millrace::worker {

PermuteLayer::PermuteLayer(const LayerPlan& plan)
    : length_(plan.output.back()), rows_(ElementCount(plan.output) / length_) {
  const Shape& input = plan.input();
  const auto& dims = plan.spec.permute().dims();
  for (int i = 0; i < dims.size(); ++i) {
    // Of this dimension's neighbours in the input.
    const size_t stride = ElementCount({input.begin() + dims[i], input.end()});
    if (i + 1 < dims.size()) {
      offsets_.Add(input[dims[i] - 1], stride);
    } else {
      step_ = stride;
    }
  }
}

void PermuteLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  for (size_t example = 0; example < pass.batch; ++example, x += rows_ * length_) {
    for (size_t row = 0; row < rows_; ++row, y += length_) {
      const float* const from = x + offsets_[row];
      for (size_t i = 0; i < length_; ++i) y[i] = from[i * step_];
    }
  }
}

void PermuteLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/, float* dy,
                            float* dx) {
  if (dx == nullptr) return;
  for (size_t example = 0; example < pass.batch; ++example, dx += rows_ * length_) {
    for (size_t row = 0; row < rows_; ++row, dy += length_) {
      float* const to = dx + offsets_[row];
      for (size_t i = 0; i < length_; ++i) to[i * step_] = dy[i];
    }
  }
}

}  // namespace millrace::worker
