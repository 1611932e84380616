// y = activation(x), as the end of another layer or as a layer of its own.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_ACTIVATION_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_ACTIVATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "protos/model.pb.h"
#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// Those that can end another layer: both directions need only y, and may work in place. LINEAR does
// nothing: its values are in place.
// NaN stays NaN: a model that has diverged shows it in its loss. (That is why RELU is not oneDNN's,
// which makes it 0, fused or not.)
class CpuActivation {
 public:
  // `shape` is that of an example; SOFTMAX is over its last dimension.
  CpuActivation(CpuContext* context, Activation function, const Shape& shape);

  void Prepare(size_t batch);
  void Forward(size_t batch, const float* x, float* y);
  void Backward(size_t batch, const float* y, const float* dy, float* dx);

 private:
  struct Primitives {
    CpuPrimitive forward;
    CpuPrimitive backward;
  };
  Primitives& ForBatch(size_t batch);
  std::unique_ptr<Primitives> MakeSigmoid(int64_t elements);
  std::unique_ptr<Primitives> MakeSoftmax(int64_t rows, int64_t columns);

  CpuContext* const context_;
  const Activation function_;
  const uint64_t elements_;  // Of an example.
  const uint64_t columns_;   // The last dimension.
  PerBatch<Primitives> primitives_;
};

// Of the functions that need x backwards. May work in place.
class SmoothActivationLayer final : public CpuUnaryLayer {
 public:
  explicit SmoothActivationLayer(const LayerPlan& plan);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  const Activation function_;
  const float negative_slope_;
  const size_t elements_;  // Of an example.
};

// Of all others.
class ActivationLayer final : public CpuUnaryLayer {
 public:
  ActivationLayer(CpuContext* context, const LayerPlan& plan);

  void Prepare(size_t batch) override;
  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  CpuActivation activation_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_ACTIVATION_H_
