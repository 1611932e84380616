#include "worker/device/cpu/layers/dense.h"

#include <algorithm>

#include "worker/device/cpu/layers/matrix_layout.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

using dnnl::memory;

// The transpose of a row-major matrix of columns x rows.
memory::desc Transposed(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, memory::data_type::f32, memory::format_tag::ba);
}

// sums[j] = the sum of column j.
void SumColumns(const float* matrix, int64_t rows, int64_t columns, float* sums) {
  std::fill(sums, sums + columns, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    const float* values = matrix + row * columns;
    for (int64_t column = 0; column < columns; ++column) sums[column] += values[column];
  }
}

}  // namespace

DenseLayer::DenseLayer(CpuContext* context, const LayerPlan& plan, const CpuParameters& parameters)
    : context_(context),
      inputs_(static_cast<int64_t>(plan.input()[0])),
      units_(static_cast<int64_t>(plan.output[0])),
      kernel_(plan.variable(kKernel)),
      bias_(plan.variable(kBias)),
      trained_(IsTrained(plan)),
      parameters_(parameters),
      activation_(context, plan.spec.dense().activation(), plan.output) {}

CpuPrimitive DenseLayer::MakeForward(int64_t batch) {
  const memory::desc x = Matrix(batch, inputs_);
  const memory::desc kernel = Matrix(inputs_, units_);
  const memory::desc bias = bias_ < 0 ? memory::desc() : Matrix(1, units_);
  const memory::desc y = Matrix(batch, units_);
  const dnnl::matmul::primitive_desc description({x, kernel, bias, y}, CpuContext::Attributes(),
                                                 context_->engine());
  if (bias_ < 0) {
    return CpuPrimitive::Make<dnnl::matmul>(
        context_, description, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, kernel}, {DNNL_ARG_DST, y}});
  }
  return CpuPrimitive::Make<dnnl::matmul>(
      context_, description,
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, kernel}, {DNNL_ARG_DST, y}, {DNNL_ARG_BIAS, bias}});
}

CpuPrimitive DenseLayer::MakeProduct(const memory::desc& a, const memory::desc& b,
                                     const memory::desc& product) {
  const dnnl::matmul::primitive_desc description({a, b, product}, CpuContext::Attributes(),
                                                 context_->engine());
  return CpuPrimitive::Make<dnnl::matmul>(
      context_, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, product}});
}

DenseLayer::Primitives& DenseLayer::ForBatch(size_t batch) {
  return primitives_.Get(batch, [&] {
    const int64_t rows = static_cast<int64_t>(batch);
    return std::make_unique<Primitives>(Primitives{
        MakeForward(rows),
        MakeProduct(Transposed(inputs_, rows), Matrix(rows, units_), Matrix(inputs_, units_)),
        MakeProduct(Matrix(rows, units_), Transposed(units_, inputs_), Matrix(rows, inputs_))});
  });
}

void DenseLayer::Prepare(size_t batch) {
  ForBatch(batch);
  activation_.Prepare(batch);
}

void DenseLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  CpuPrimitive& forward = ForBatch(pass.batch).forward;
  if (bias_ < 0) {
    forward.Run({{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, parameters_[kKernel]}, {DNNL_ARG_DST, y}});
  } else {
    forward.Run({{DNNL_ARG_SRC, x},
                 {DNNL_ARG_WEIGHTS, parameters_[kKernel]},
                 {DNNL_ARG_DST, y},
                 {DNNL_ARG_BIAS, parameters_[kBias]}});
  }
  activation_.Forward(pass.batch, y, y);
}

void DenseLayer::FinishGradients(const CpuPass& pass, Primitives* primitives, const float* x,
                                 const float* dy) {
  if (bias_ >= 0) {
    SumColumns(dy, static_cast<int64_t>(pass.batch), units_, pass.gradients->Buffer(bias_).data());
    pass.gradients->Finished(bias_);
  }
  primitives->kernel_gradient.Run({{DNNL_ARG_SRC, x},
                                   {DNNL_ARG_WEIGHTS, dy},
                                   {DNNL_ARG_DST, pass.gradients->Buffer(kernel_).data()}});
  pass.gradients->Finished(kernel_);
}

void DenseLayer::Backward(const CpuPass& pass, const float* x, const float* y, float* dy,
                          float* dx) {
  Primitives& primitives = ForBatch(pass.batch);
  activation_.Backward(pass.batch, y, dy, dy);
  if (trained_) FinishGradients(pass, &primitives, x, dy);
  if (dx == nullptr) return;
  primitives.input_gradient.Run(
      {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, parameters_[kKernel]}, {DNNL_ARG_DST, dx}});
}

}  // namespace millrace::worker
