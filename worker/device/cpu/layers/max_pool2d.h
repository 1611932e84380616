// The largest value of each window of each channel.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_

#include <cstddef>
#include <memory>

#include "worker/device/cpu/buffer.h"
#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/layers/image_layout.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

class MaxPool2DLayer final : public CpuLayer {
 public:
  MaxPool2DLayer(CpuContext* context, const LayerPlan& plan);

  void Prepare(size_t batch) override;
  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  struct Primitives {
    CpuPrimitive forward;
    CpuPrimitive backward;
    CpuBuffer winners;  // Which position of its window each output value comes from.
  };
  Primitives& ForBatch(size_t batch);
  std::unique_ptr<Primitives> MakePrimitives(int64_t batch);

  CpuContext* const context_;
  const Shape input_;
  const Shape output_;
  const Windows windows_;
  PerBatch<Primitives> primitives_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_MAX_POOL2D_H_
