// Channels brought to mean 0 and variance 1, then scaled and shifted.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_BATCH_NORMALIZATION_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_BATCH_NORMALIZATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/layers/column_statistics.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// By oneDNN. A layer that is trained takes the batch's statistics in training, keeps them for the
// backward pass, and pushes them there as the gradients of the moving ones, which it takes
// otherwise.
class BatchNormalizationLayer final : public CpuUnaryLayer {
 public:
  BatchNormalizationLayer(CpuContext* context, const LayerPlan& plan,
                          const CpuParameters& parameters);

  void Prepare(size_t batch) override;
  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  struct Primitives {
    CpuPrimitive forward;  // With given statistics.
    CpuPrimitive gradient;
  };
  Primitives& ForBatch(size_t batch);
  std::unique_ptr<Primitives> MakePrimitives(int64_t batch);
  void FinishStatistics(const CpuPass& pass);
  // Without statistics of the batch each value goes its own way.
  void ScaleGradient(size_t rows, const float* dy, float* dx) const;

  CpuContext* const context_;
  const int64_t rows_;  // Of an example.
  const int64_t channels_;
  const float epsilon_;
  const bool trained_;
  const std::vector<int> variables_;  // As in LayerPlan.
  const CpuParameters parameters_;
  // In place of variables that the layer has not, and of gradients that nobody wants.
  std::vector<float> ones_;
  std::vector<float> zeros_;
  std::vector<float> unused_;
  PerBatch<Primitives> primitives_;
  ColumnStatistics statistics_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_BATCH_NORMALIZATION_H_
