#include "worker/device/cpu/layers/concatenate.h"

#include <algorithm>

namespace millrace::worker {

ConcatenateLayer::ConcatenateLayer(const LayerPlan& plan) {
  const size_t dimension = static_cast<size_t>(plan.spec.concatenate().axis()) - 1;
  for (size_t i = 0; i < dimension; ++i) rounds_ *= plan.output[i];
  for (const Shape& input : plan.inputs) {
    runs_.push_back(ElementCount({input.begin() + static_cast<ptrdiff_t>(dimension), input.end()}));
    length_ += runs_.back();
  }
}

void ConcatenateLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  for (size_t i = 0; i < x.size(); ++i) {
    const float* from = x[i];
    float* to = y;
    for (size_t round = 0; round < pass.batch * rounds_; ++round) {
      std::copy(from, from + runs_[i], to);
      from += runs_[i];
      to += length_;
    }
    y += runs_[i];
  }
}

void ConcatenateLayer::Backward(const CpuPass& pass, absl::Span<const float* const> /*x*/,
                                const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  for (size_t i = 0; i < dx.size(); ++i) {
    const float* from = dy;
    float* to = dx[i];
    dy += runs_[i];
    if (to == nullptr) continue;
    for (size_t round = 0; round < pass.batch * rounds_; ++round) {
      std::copy(from, from + runs_[i], to);
      from += length_;
      to += runs_[i];
    }
  }
}

}  // namespace millrace::worker
