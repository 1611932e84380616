// Several inputs of one size become one, element by element. The sum is in add.h, inputs of several
// sizes in broadcast.h.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_MERGE_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_MERGE_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"

namespace millrace::worker {

class SubtractLayer final : public CpuLayer {
 public:
  explicit SubtractLayer(size_t elements) : elements_(elements) {}

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  const size_t elements_;  // Of an example.
};

class MultiplyLayer final : public CpuLayer {
 public:
  explicit MultiplyLayer(size_t elements) : elements_(elements) {}

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  const size_t elements_;
};

class AverageLayer final : public CpuLayer {
 public:
  explicit AverageLayer(size_t elements) : elements_(elements) {}

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  const size_t elements_;
};

// NaN is larger than all others, as in MaxPool2DLayer.
class MaximumLayer final : public CpuLayer {
 public:
  explicit MaximumLayer(size_t elements) : elements_(elements) {}

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  const size_t elements_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_MERGE_H_
