// The sum of several inputs.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_ADD_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_ADD_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"

namespace millrace::worker {

// Added up in the order of the inputs.
class AddLayer final : public CpuLayer {
 public:
  explicit AddLayer(size_t elements) : elements_(elements) {}

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  const size_t elements_;  // Of an example.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_ADD_H_
