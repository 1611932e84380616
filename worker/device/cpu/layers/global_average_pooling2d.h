// The mean of each channel of an image.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_GLOBAL_AVERAGE_POOLING2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_GLOBAL_AVERAGE_POOLING2D_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

class GlobalAveragePooling2DLayer final : public CpuUnaryLayer {
 public:
  explicit GlobalAveragePooling2DLayer(const LayerPlan& plan)
      : pixels_(plan.input()[0] * plan.input()[1]), channels_(plan.input()[2]) {}

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const size_t pixels_;
  const size_t channels_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_GLOBAL_AVERAGE_POOLING2D_H_
