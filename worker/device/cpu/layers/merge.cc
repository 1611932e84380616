#include "worker/device/cpu/layers/merge.h"

#include <algorithm>

namespace millrace::worker {
namespace {

// Runs write(k) for each gradient that is asked for: the one that stands in dy's place at last,
// since all are made of dy.
template <typename Write>
void ForEachGradient(absl::Span<float* const> dx, const float* dy, const Write& write) {
  for (const bool in_place : {false, true}) {
    for (size_t k = 0; k < dx.size(); ++k) {
      if (dx[k] != nullptr && (dx[k] == dy) == in_place) write(k);
    }
  }
}

// Whether a comes before b as the largest.
inline bool IsLarger(float a, float b) { return (a > b) | (a != a); }

}  // namespace

void SubtractLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  for (size_t i = 0; i < pass.batch * elements_; ++i) y[i] = x[0][i] - x[1][i];
}

void SubtractLayer::Backward(const CpuPass& pass, absl::Span<const float* const> /*x*/,
                             const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  ForEachGradient(dx, dy, [&](size_t k) {
    for (size_t i = 0; i < pass.batch * elements_; ++i) dx[k][i] = k == 0 ? dy[i] : -dy[i];
  });
}

void MultiplyLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  const size_t count = pass.batch * elements_;
  for (size_t i = 0; i < count; ++i) y[i] = x[0][i] * x[1][i];
  for (const float* const more : x.subspan(2)) {
    for (size_t i = 0; i < count; ++i) y[i] *= more[i];
  }
}

void MultiplyLayer::Backward(const CpuPass& pass, absl::Span<const float* const> x,
                             const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  const size_t count = pass.batch * elements_;
  for (size_t k = 0; k < dx.size(); ++k) {
    if (dx[k] == nullptr) continue;
    std::copy(dy, dy + count, dx[k]);
    for (size_t other = 0; other < x.size(); ++other) {
      if (other == k) continue;
      for (size_t i = 0; i < count; ++i) dx[k][i] *= x[other][i];
    }
  }
}

void AverageLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  const float inputs = static_cast<float>(x.size());
  for (size_t i = 0; i < pass.batch * elements_; ++i) {
    float sum = x[0][i];
    for (size_t k = 1; k < x.size(); ++k) sum += x[k][i];
    y[i] = sum / inputs;
  }
}

void AverageLayer::Backward(const CpuPass& pass, absl::Span<const float* const> x,
                            const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  const float inputs = static_cast<float>(x.size());
  ForEachGradient(dx, dy, [&](size_t k) {
    for (size_t i = 0; i < pass.batch * elements_; ++i) dx[k][i] = dy[i] / inputs;
  });
}

void MaximumLayer::Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) {
  for (size_t i = 0; i < pass.batch * elements_; ++i) {
    float largest = x[0][i];
    for (size_t k = 1; k < x.size(); ++k) largest = IsLarger(x[k][i], largest) ? x[k][i] : largest;
    y[i] = largest;
  }
}

void MaximumLayer::Backward(const CpuPass& pass, absl::Span<const float* const> x,
                            const float* /*y*/, float* dy, absl::Span<float* const> dx) {
  for (size_t i = 0; i < pass.batch * elements_; ++i) {
    size_t winner = 0;
    for (size_t k = 1; k < x.size(); ++k) winner = IsLarger(x[k][i], x[winner][i]) ? k : winner;
    for (size_t k = 0; k < x.size(); ++k) {
      if (dx[k] != nullptr) dx[k][i] = k == winner ? dy[i] : 0;
    }
  }
}

}  // namespace millrace::worker
