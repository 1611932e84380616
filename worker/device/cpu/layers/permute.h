// The dimensions of an example in another order.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_PERMUTE_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_PERMUTE_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/layers/row_offsets.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

class PermuteLayer final : public CpuUnaryLayer {
 public:
  explicit PermuteLayer(const LayerPlan& plan);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  // Of the output, in an example.
  const size_t length_;  // Of a row: the last dimension.
  const size_t rows_;
  size_t step_ = 1;     // In the input, from one element of a row to the next.
  RowOffsets offsets_;  // In the input, of each row.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_PERMUTE_H_
