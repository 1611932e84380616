#include "worker/device/cpu/layers/add.h"

#include <algorithm>

namespace millrace::worker {
namespace {

// `sum` may be one of the others.
void AddTwo(size_t count, const float* a, const float* b, float* sum) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

}  // namespace

void AddLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  const size_t count = pass.batch * elements_;
  if (x.size() == 2) return AddTwo(count, x[0], x[1], y);
  // Each of them may be where the sum will be.
  for (size_t i = 0; i < count; ++i) {
    float sum = x[0][i];
    for (size_t k = 1; k < x.size(); ++k) sum += x[k][i];
    y[i] = sum;
  }
}

void AddLayer::Backward(const CpuPass& pass, absl::Span<const float* const> /*x*/,
                        const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  const size_t count = pass.batch * elements_;
  for (float* const gradient : dx) {
    if (gradient != nullptr && gradient != dy) std::copy(dy, dy + count, gradient);
  }
}

}  // namespace millrace::worker
