#include "worker/device/cpu/layers/dense.h"

#include <algorithm>

#include "worker/device/cpu/layers/matrix_layout.h"
#include "worker/model/walk.h"

namespace millrace::worker {
namespace {

using dnnl::memory;

// The kernel's gradient is computed in parts of about this many elements (512 KiB), which are
// looked through and sent while they are in the processor's second cache.
constexpr int64_t kPartElements = 1 << 17;
// But of no fewer rows: each part reads the whole gradient of the output again.
constexpr int64_t kPartRows = 128;

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

// c = a b + beta c, where a is rows x inner and b inner x columns; 'T': what stands at `a` is its
// transpose. (oneDNN's matmul takes another implementation, which needs up to a third more time
// where a matrix is long.)
void Multiply(char transposed, const float* a, int64_t a_columns, const float* b, float beta,
              float* c, int64_t rows, int64_t inner, int64_t columns) {
  dnnl::error::wrap_c_api(dnnl_sgemm(transposed, 'N', rows, columns, inner, 1, a, a_columns, b,
                                     columns, beta, c, columns),
                          "could not multiply matrices");
}

}  // namespace

DenseLayer::DenseLayer(CpuContext* context, const LayerPlan& plan, const CpuParameters& parameters)
    : context_(context),
      rows_(static_cast<int64_t>(ElementCount(plan.input()) / plan.input().back())),
      inputs_(static_cast<int64_t>(plan.input().back())),
      units_(static_cast<int64_t>(plan.output.back())),
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

CpuPrimitive& DenseLayer::InputGradient(size_t batch) {
  return input_gradient_.Get(batch, [&] {
    const int64_t rows = RowsOf(batch);
    return std::make_unique<CpuPrimitive>(
        MakeProduct(Matrix(rows, units_), Transposed(units_, inputs_), Matrix(rows, inputs_)));
  });
}

void DenseLayer::Prepare(size_t batch) {
  InputGradient(batch);
  activation_.Prepare(batch);
}

void DenseLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const int64_t rows = RowsOf(pass.batch);
  if (bias_ >= 0) FillRows(parameters_[kBias], rows, units_, y);
  Multiply('N', x, inputs_, parameters_[kKernel], bias_ >= 0 ? 1.0f : 0.0f, y, rows, inputs_,
           units_);
  activation_.Forward(pass.batch, y, y);
}

void DenseLayer::FinishGradients(const CpuPass& pass, const float* x, const float* dy) {
  const int64_t rows = RowsOf(pass.batch);
  if (bias_ >= 0) {
    SumColumns(dy, rows, units_, pass.gradients->Buffer(bias_).data());
    pass.gradients->Finished(bias_);
  }
  float* const gradient = pass.gradients->Buffer(kernel_).data();
  const int64_t part = std::max(kPartRows, kPartElements / units_);
  for (int64_t begin = 0; begin < inputs_; begin += part) {
    const int64_t end = std::min(begin + part, inputs_);
    Multiply('T', x + begin, inputs_, dy, /*beta=*/0, gradient + begin * units_, end - begin, rows,
             units_);
    pass.gradients->FinishedFirst(kernel_, static_cast<size_t>(end * units_));
  }
  pass.gradients->Finished(kernel_);
}

void DenseLayer::Backward(const CpuPass& pass, const float* x, const float* y, float* dy,
                          float* dx) {
  activation_.Backward(pass.batch, y, dy, dy);
  if (trained_) FinishGradients(pass, x, dy);
  if (dx == nullptr) return;
  InputGradient(pass.batch)
      .Run({{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, parameters_[kKernel]}, {DNNL_ARG_DST, dx}});
}

}  // namespace millrace::worker
