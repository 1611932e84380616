// Several inputs one after the other along a dimension.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_CONCATENATE_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_CONCATENATE_H_

#include <cstddef>
#include <vector>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// With the dimensions before the one that is joined and those after it each taken as one, every
// input is a list of runs, and the output has a run of each input in turns.
class ConcatenateLayer final : public CpuLayer {
 public:
  explicit ConcatenateLayer(const LayerPlan& plan);

  void Forward(const CpuPass& pass, absl::Span<const float* const> x, float* y) override;
  void Backward(const CpuPass& pass, absl::Span<const float* const> x, const float* y, float* dy,
                absl::Span<float* const> dx) override;

 private:
  size_t rounds_ = 1;         // Of an example.
  std::vector<size_t> runs_;  // The length of each input's.
  size_t length_ = 0;         // Of all together.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_CONCATENATE_H_
