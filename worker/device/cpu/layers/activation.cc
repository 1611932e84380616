#include "worker/device/cpu/layers/activation.h"

#include <cmath>
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

// y[i] = f(x[i])
template <typename Function>
void Apply(size_t count, const float* x, float* y, const Function& f) {
  for (size_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

// dx[i] = dy[i] * slope(v[i])
template <typename Function>
void ApplySlope(size_t count, const float* v, const float* dy, float* dx, const Function& slope) {
  for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * slope(v[i]);
}

float Relu6(float x) { return x < 0 ? 0 : x > 6 ? 6 : x; }
float Elu(float x) { return x < 0 ? std::expm1(x) : x; }
float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

constexpr float kSqrtHalf = 0.70710678f;
constexpr float kSqrt2OverPi = 0.79788456f;
constexpr float kSqrtHalfOverPi = 0.39894228f;

float Gelu(float x) { return 0.5f * x * (1 + std::erf(x * kSqrtHalf)); }
float GeluSlope(float x) {
  return 0.5f * (1 + std::erf(x * kSqrtHalf)) + x * kSqrtHalfOverPi * std::exp(-0.5f * x * x);
}

float GeluTanhArgument(float x) { return kSqrt2OverPi * (x + 0.044715f * x * x * x); }
float GeluTanh(float x) { return 0.5f * x * (1 + std::tanh(GeluTanhArgument(x))); }
float GeluTanhSlope(float x) {
  const float tanh = std::tanh(GeluTanhArgument(x));
  return 0.5f * (1 + tanh) +
         0.5f * x * (1 - tanh * tanh) * kSqrt2OverPi * (1 + 3 * 0.044715f * x * x);
}

float SiluSlope(float x) {
  const float sigmoid = Sigmoid(x);
  return sigmoid * (1 + x * (1 - sigmoid));
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
  const size_t count = batch * elements_;
  if (function_ == LINEAR) return;
  if (function_ == RELU) return Relu(count, x, y);
  if (function_ == TANH) return Apply(count, x, y, [](float v) { return std::tanh(v); });
  if (function_ == RELU6) return Apply(count, x, y, Relu6);
  if (function_ == ELU) return Apply(count, x, y, Elu);
  ForBatch(batch).forward.Run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

void CpuActivation::Backward(size_t batch, const float* y, const float* dy, float* dx) {
  const size_t count = batch * elements_;
  if (function_ == LINEAR) return;
  if (function_ == RELU) return ReluGradient(count, y, dy, dx);
  if (function_ == TANH) return ApplySlope(count, y, dy, dx, [](float v) { return 1 - v * v; });
  if (function_ == RELU6) {
    return ApplySlope(count, y, dy, dx, [](float v) { return v > 0 && v < 6 ? 1.0f : 0.0f; });
  }
  if (function_ == ELU) {
    return ApplySlope(count, y, dy, dx, [](float v) { return v < 0 ? v + 1 : 1.0f; });
  }
  ForBatch(batch).backward.Run(
      {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
}

SmoothActivationLayer::SmoothActivationLayer(const LayerPlan& plan)
    : function_(plan.spec.activation().function()),
      negative_slope_(static_cast<float>(plan.spec.activation().negative_slope())),
      elements_(ElementCount(plan.input())) {}

void SmoothActivationLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const size_t count = pass.batch * elements_;
  if (function_ == GELU) return Apply(count, x, y, Gelu);
  if (function_ == GELU_TANH) return Apply(count, x, y, GeluTanh);
  if (function_ == SILU) return Apply(count, x, y, [](float v) { return v * Sigmoid(v); });
  Apply(count, x, y, [this](float v) { return v < 0 ? v * negative_slope_ : v; });
}

void SmoothActivationLayer::Backward(const CpuPass& pass, const float* x, const float* /*y*/,
                                     float* dy, float* dx) {
  if (dx == nullptr) return;
  const size_t count = pass.batch * elements_;
  if (function_ == GELU) return ApplySlope(count, x, dy, dx, GeluSlope);
  if (function_ == GELU_TANH) return ApplySlope(count, x, dy, dx, GeluTanhSlope);
  if (function_ == SILU) return ApplySlope(count, x, dy, dx, SiluSlope);
  ApplySlope(count, x, dy, dx, [this](float v) { return v > 0 ? 1.0f : negative_slope_; });
}

ActivationLayer::ActivationLayer(CpuContext* context, const LayerPlan& plan)
    : activation_(context, plan.spec.activation().function(), plan.input()) {}

void ActivationLayer::Prepare(size_t batch) { activation_.Prepare(batch); }

void ActivationLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  activation_.Forward(pass.batch, x, y);
}

void ActivationLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* y, float* dy,
                               float* dx) {
  if (dx != nullptr) activation_.Backward(pass.batch, y, dy, dx);
}

}  // namespace millrace::worker
