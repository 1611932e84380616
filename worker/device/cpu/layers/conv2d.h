// A convolution of images or sequences, with bias and activation: Conv2D, DepthwiseConv2D, in which
// each channel is a group, and Conv1D, of images of one row.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_CONV2D_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_CONV2D_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cpu/buffer.h"
#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/layers/activation.h"
#include "worker/device/cpu/layers/image_layout.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Images keep their channels last throughout: oneDNN's kernels for that are about as fast as those
// for its own blocked layouts, and no reordering is left. Only kernels, which are small, are
// reordered into what each primitive likes best.
class Conv2DLayer final : public CpuUnaryLayer {
 public:
  // `input_gradient`: whether Backward will be asked for dx.
  Conv2DLayer(CpuContext* context, const LayerPlan& plan, const CpuParameters& parameters,
              bool input_gradient);

  void Prepare(size_t batch) override;
  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  Conv2DLayer(CpuContext* context, const LayerPlan& plan, const ImageWindow& window,
              const CpuParameters& parameters, bool input_gradient);

  // A convolution, and the reordering of the kernel (or of its gradient) between Keras's layout and
  // the one that the convolution likes.
  struct WithKernel {
    CpuPrimitive convolution;
    CpuPrimitive reorder;
    CpuBuffer kernel;  // In the layout of the convolution.
  };
  struct Primitives {
    WithKernel forward;
    WithKernel kernel_gradient;
    bool sums_bias = false;                      // The bias's gradient is not among its results.
    std::unique_ptr<WithKernel> input_gradient;  // Null where none is needed.
  };
  Primitives& ForBatch(size_t batch);
  void FinishGradients(const CpuPass& pass, Primitives* primitives, const float* x,
                       const float* dy);
  std::unique_ptr<Primitives> MakePrimitives(int64_t batch);
  bool IsMostlyWriting() const;
  dnnl::convolution_forward::primitive_desc ForwardDescription(int64_t batch) const;
  dnnl::convolution_forward::primitive_desc ForwardDescription(
      int64_t batch, const dnnl::memory::desc& kernel) const;
  dnnl::convolution_backward_weights::primitive_desc KernelGradientDescription(
      int64_t batch, const dnnl::convolution_forward::primitive_desc& forward, bool bias) const;
  WithKernel MakeForward(const dnnl::convolution_forward::primitive_desc& description);
  WithKernel MakeKernelGradient(int64_t batch,
                                const dnnl::convolution_forward::primitive_desc& forward,
                                bool bias);
  WithKernel MakeInputGradient(int64_t batch,
                               const dnnl::convolution_forward::primitive_desc& forward);
  CpuPrimitive MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  bool has_bias() const { return bias_ >= 0; }
  dnnl::memory::desc BiasLayout() const;
  // [filters, channels, height, width] in oneDNN's order; where there are groups, they come first.
  dnnl::memory::dims KernelSizes() const;
  dnnl::memory::desc AnyKernel() const;  // In the layout that a primitive likes best.
  dnnl::memory::desc KerasKernel() const;

  CpuContext* const context_;
  const Shape input_;
  const Shape output_;
  const Windows windows_;
  const int64_t groups_;
  const int kernel_;  // As in LayerPlan.
  const int bias_;
  const bool trained_;
  const CpuParameters parameters_;
  const bool wants_input_gradient_;
  CpuActivation activation_;
  PerBatch<Primitives> primitives_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_CONV2D_H_
