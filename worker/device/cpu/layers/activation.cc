#include "worker/device/cpu/layers/activation.h"

#include <memory>

#include "worker/device/cpu/layers/matrix_layout.h"

namespace millrace::worker {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

void Relu(size_t count, const float* x, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

void ReluGradient(size_t count, const float* y, const float* dy, float* dx) {
  for (size_t i = 0; i < count; ++i) {
    const float gradient = dy[i];  // Read in any case, so that the compiler can vectorise.
    dx[i] = y[i] > 0 ? gradient : 0;
  }
}

}  // namespace

CpuActivation::CpuActivation(CpuContext* context, Activation function, const Shape& shape)
    : context_(context),
      function_(function),
      elements_(ElementCount(shape)),
      columns_(shape.empty() ? 1 : shape.back()) {}

std::unique_ptr<CpuActivation::Primitives> CpuActivation::MakeSigmoid(int64_t elements) {
  const memory::desc layout = Matrix(1, elements);
  constexpr algorithm kSigmoid = algorithm::eltwise_logistic_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc forward(
      {prop_kind::forward_training, kSigmoid, layout}, CpuContext::Attributes(),
      context_->engine());
  const dnnl::eltwise_backward::primitive_desc backward(
      {kSigmoid, layout, layout}, CpuContext::Attributes(), context_->engine(), forward);
  return std::make_unique<Primitives>(Primitives{
      CpuPrimitive::Make<dnnl::eltwise_forward>(context_, forward,
                                                {{DNNL_ARG_SRC, layout}, {DNNL_ARG_DST, layout}}),
      CpuPrimitive::Make<dnnl::eltwise_backward>(
          context_, backward,
          {{DNNL_ARG_DST, layout}, {DNNL_ARG_DIFF_DST, layout}, {DNNL_ARG_DIFF_SRC, layout}})});
}

std::unique_ptr<CpuActivation::Primitives> CpuActivation::MakeSoftmax(int64_t rows,
                                                                      int64_t columns) {
  const memory::desc layout = Matrix(rows, columns);
  const dnnl::softmax_forward::primitive_desc forward(
      {prop_kind::forward_training, layout, /*softmax_axis=*/1}, CpuContext::Attributes(),
      context_->engine());
  const dnnl::softmax_backward::primitive_desc backward(
      {layout, layout, /*softmax_axis=*/1}, CpuContext::Attributes(), context_->engine(), forward);
  return std::make_unique<Primitives>(Primitives{
      CpuPrimitive::Make<dnnl::softmax_forward>(context_, forward,
                                                {{DNNL_ARG_SRC, layout}, {DNNL_ARG_DST, layout}}),
      CpuPrimitive::Make<dnnl::softmax_backward>(
          context_, backward,
          {{DNNL_ARG_DST, layout}, {DNNL_ARG_DIFF_DST, layout}, {DNNL_ARG_DIFF_SRC, layout}})});
}

CpuActivation::Primitives& CpuActivation::ForBatch(size_t batch) {
  return primitives_.Get(batch, [&] {
    const int64_t elements = static_cast<int64_t>(batch * elements_);
    const int64_t columns = static_cast<int64_t>(columns_);
    return function_ == SOFTMAX ? MakeSoftmax(elements / columns, columns) : MakeSigmoid(elements);
  });
}

void CpuActivation::Prepare(size_t batch) {
  if (function_ == SIGMOID || function_ == SOFTMAX) ForBatch(batch);
}

void CpuActivation::Forward(size_t batch, const float* x, float* y) {
  if (function_ == LINEAR) return;
  if (function_ == RELU) return Relu(batch * elements_, x, y);
  ForBatch(batch).forward.Run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

void CpuActivation::Backward(size_t batch, const float* y, const float* dy, float* dx) {
  if (function_ == LINEAR) return;
  if (function_ == RELU) return ReluGradient(batch * elements_, y, dy, dx);
  ForBatch(batch).backward.Run(
      {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
}

ActivationLayer::ActivationLayer(CpuContext* context, const LayerPlan& plan)
    : function_(plan.spec.activation().function()), activation_(context, function_, plan.input) {}

bool ActivationLayer::IsView() const { return function_ == LINEAR; }

void ActivationLayer::Prepare(size_t batch) { activation_.Prepare(batch); }

void ActivationLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  activation_.Forward(pass.batch, x, y);
}

void ActivationLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* y, float* dy,
                               float* dx) {
  if (dx != nullptr) activation_.Backward(pass.batch, y, dy, dx);
}

}  // namespace millrace::worker
