// The largest value of each channel of an image or a sequence.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_GLOBAL_MAX_POOLING2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_GLOBAL_MAX_POOLING2D_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Of equal values the first one wins, and NaN is larger than all others, as in MaxPool2DLayer.
// Keeps which pixel each comes from.
class GlobalMaxPooling2DLayer final : public CpuUnaryLayer {
 public:
  explicit GlobalMaxPooling2DLayer(const LayerPlan& plan)
      : pixels_(ElementCount(plan.input()) / plan.input().back()), channels_(plan.input().back()) {}

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const size_t pixels_;  // Or steps.
  const size_t channels_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_GLOBAL_MAX_POOLING2D_H_
