// x * scale + offset.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_RESCALING_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_RESCALING_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

class RescalingLayer final : public CpuUnaryLayer {
 public:
  explicit RescalingLayer(const LayerPlan& plan)
      : elements_(ElementCount(plan.input())),
        scale_(static_cast<float>(plan.spec.rescaling().scale())),
        offset_(static_cast<float>(plan.spec.rescaling().offset())) {}

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const size_t elements_;  // Of an example.
  const float scale_;
  const float offset_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_RESCALING_H_
