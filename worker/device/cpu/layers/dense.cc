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

void FillRows(const float* values, int64_t rows, int64_t columns, float* matrix) {
  for (int64_t row = 0; row < rows; ++row) std::copy_n(values, columns, matrix + row * columns);
}

// c = a b + beta c, where a is rows x inner and b inner x columns. oneDNN's matmul, which takes
// another implementation, needs a third more time where the inner dimension is long.
void AddProduct(const float* a, const float* b, float beta, float* c, int64_t rows, int64_t inner,
                int64_t columns) {
  dnnl::error::wrap_c_api(
      dnnl_sgemm('N', 'N', rows, columns, inner, 1, a, inner, b, columns, beta, c, columns),
      "could not multiply matrices");
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
        MakeProduct(Transposed(inputs_, rows), Matrix(rows, units_), Matrix(inputs_, units_)),
        MakeProduct(Matrix(rows, units_), Transposed(units_, inputs_), Matrix(rows, inputs_))});
  });
}

void DenseLayer::Prepare(size_t batch) {
  ForBatch(batch);
  activation_.Prepare(batch);
}

void DenseLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const int64_t rows = static_cast<int64_t>(pass.batch);
  if (bias_ >= 0) FillRows(parameters_[kBias], rows, units_, y);
  AddProduct(x, parameters_[kKernel], bias_ >= 0 ? 1.0f : 0.0f, y, rows, inputs_, units_);
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
