// y = activation(x kernel + bias), of each row along the last dimension of x.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_DENSE_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_DENSE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/optional.h"
#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/layers/activation.h"
#include "worker/device/cpu/layers/long_products.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

class DenseLayer final : public CpuUnaryLayer {
 public:
  DenseLayer(CpuContext* context, const LayerPlan& plan, const CpuParameters& parameters);

  void Prepare(size_t batch) override;
  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  int64_t RowsOf(size_t batch) const { return static_cast<int64_t>(batch) * rows_; }
  // Of the backward pass.
  struct Products {
    absl::optional<LongProducts> own;
    // Without these, dy kernel^T.
    absl::optional<CpuPrimitive> input_gradient;
  };
  Products& ForBatch(size_t batch);
  // x^T dy, of which `gradient` is the part of the inputs from `begin` to `end`.
  void KernelGradient(const Products& products, int64_t rows, const float* x, const float* dy,
                      int64_t begin, int64_t end, float* gradient) const;
  void FinishGradients(const CpuPass& pass, const Products& products, const float* x,
                       const float* dy);
  CpuPrimitive MakeProduct(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                           const dnnl::memory::desc& product);

  CpuContext* const context_;
  const int64_t rows_;    // Of an example.
  const int64_t inputs_;  // The last dimension of x.
  const int64_t units_;
  const int kernel_;  // As in LayerPlan.
  const int bias_;
  const bool trained_;
  const CpuParameters parameters_;
  CpuActivation activation_;
  PerBatch<Products> products_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_DENSE_H_
