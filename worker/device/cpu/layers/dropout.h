// Inverted dropout with a computed mask.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_DROPOUT_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_DROPOUT_H_

#include <cstddef>
#include <cstdint>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Whether an element is kept follows from the pass's seed, the layer's place in the model, the
// example's place in the batch and the element's in the example, so the mask is not stored: the
// backward pass computes it again.
class DropoutLayer final : public CpuUnaryLayer {
 public:
  DropoutLayer(const LayerPlan& plan, size_t layer_index);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  // to = mask * from / (1 - rate).
  void Mask(const CpuPass& pass, const float* from, float* to) const;

  const size_t layer_index_;
  const size_t elements_;     // Of an example; fits 32 bits (see kMaxExampleElements).
  const uint32_t threshold_;  // Elements whose hash is below are dropped.
  const float scale_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_DROPOUT_H_
