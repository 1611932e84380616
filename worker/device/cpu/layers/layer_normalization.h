// Each row brought to mean 0 and variance 1, then scaled and shifted.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_LAYER_NORMALIZATION_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_LAYER_NORMALIZATION_H_

#include <cstddef>
#include <vector>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Keeps mean and 1 / deviation of each row.
class LayerNormalizationLayer final : public CpuUnaryLayer {
 public:
  LayerNormalizationLayer(const LayerPlan& plan, const CpuParameters& parameters);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  void FinishGradients(const CpuPass& pass, const float* x, const float* dy) const;

  const size_t rows_;  // Of an example.
  const size_t columns_;
  const float epsilon_;
  const bool trained_;
  const int gamma_;  // As in LayerPlan.
  const int beta_;
  const CpuParameters parameters_;
  std::vector<float> ones_;  // In place of a gamma.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_LAYER_NORMALIZATION_H_
