#include "worker/device/cpu/layers/max_pool2d.h"

namespace millrace::worker {
namespace {

using dnnl::algorithm;
using dnnl::memory;

Windows PoolWindows(const LayerPlan& plan) {
  const MaxPool2D& pool = plan.spec.max_pool2d();
  return MakeWindows(plan.input, pool.pool_size(), pool.strides(), pool.padding());
}

}  // namespace

MaxPool2DLayer::MaxPool2DLayer(CpuContext* context, const LayerPlan& plan)
    : context_(context), input_(plan.input), output_(plan.output), windows_(PoolWindows(plan)) {}

std::unique_ptr<MaxPool2DLayer::Primitives> MaxPool2DLayer::MakePrimitives(int64_t batch) {
  const memory::desc x = ImageLayout(batch, input_);
  const memory::desc y = ImageLayout(batch, output_);
  const dnnl::pooling_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm::pooling_max, x, y, windows_.strides,
       windows_.size, windows_.pad_before, windows_.pad_after},
      CpuContext::Attributes(), context_->engine());
  const dnnl::pooling_backward::primitive_desc backward(
      {algorithm::pooling_max, x, y, windows_.strides, windows_.size, windows_.pad_before,
       windows_.pad_after},
      CpuContext::Attributes(), context_->engine(), forward);
  const memory::desc winners = forward.workspace_desc();
  return std::make_unique<Primitives>(Primitives{
      CpuPrimitive::Make<dnnl::pooling_forward>(
          context_, forward, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, winners}}),
      CpuPrimitive::Make<dnnl::pooling_backward>(
          context_, backward,
          {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WORKSPACE, winners}, {DNNL_ARG_DIFF_SRC, x}}),
      CpuBuffer((winners.get_size() + sizeof(float) - 1) / sizeof(float))});
}

MaxPool2DLayer::Primitives& MaxPool2DLayer::ForBatch(size_t batch) {
  return primitives_.Get(batch, [&] { return MakePrimitives(static_cast<int64_t>(batch)); });
}

void MaxPool2DLayer::Prepare(size_t batch) { ForBatch(batch); }

void MaxPool2DLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  Primitives& primitives = ForBatch(pass.batch);
  primitives.forward.Run(
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, primitives.winners.data()}});
}

void MaxPool2DLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                              float* dy, float* dx) {
  if (dx == nullptr) return;
  Primitives& primitives = ForBatch(pass.batch);
  primitives.backward.Run({{DNNL_ARG_DIFF_DST, dy},
                           {DNNL_ARG_WORKSPACE, primitives.winners.data()},
                           {DNNL_ARG_DIFF_SRC, dx}});
}

}  // namespace millrace::worker
