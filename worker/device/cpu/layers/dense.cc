#include "worker/device/cpu/layers/dense.h"

#include <algorithm>

#include "worker/device/cpu/layers/column_sums.h"
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

int64_t PartRows(int64_t units) {
  constexpr int64_t kMultiple = LongProducts::kInputsAtOnce;
  return std::max(kPartRows, kPartElements / units) / kMultiple * kMultiple;
}

// The transpose of a row-major matrix of columns x rows.
memory::desc Transposed(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, memory::data_type::f32, memory::format_tag::ba);
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

DenseLayer::Products& DenseLayer::ForBatch(size_t batch) {
  return products_.Get(batch, [&] {
    const int64_t rows = RowsOf(batch);
    const size_t sizes[] = {static_cast<size_t>(rows), static_cast<size_t>(inputs_),
                            static_cast<size_t>(units_)};
    auto products = std::make_unique<Products>();
    if (LongProducts::IsFor(sizes[0], sizes[1], sizes[2])) {
      products->own.emplace(sizes[0], sizes[1], sizes[2]);
    } else {
      products->input_gradient.emplace(
          MakeProduct(Matrix(rows, units_), Transposed(units_, inputs_), Matrix(rows, inputs_)));
    }
    return products;
  });
}

void DenseLayer::Prepare(size_t batch) {
  ForBatch(batch);
  activation_.Prepare(batch);
}

void DenseLayer::Forward(const CpuPass& pass, const float* x, float* y) {
  const int64_t rows = RowsOf(pass.batch);
  if (bias_ >= 0) FillRows(parameters_[kBias], rows, units_, y);
  Multiply('N', x, inputs_, parameters_[kKernel], bias_ >= 0 ? 1.0f : 0.0f, y, rows, inputs_,
           units_);
  activation_.Forward(pass.batch, y, y);
}

void DenseLayer::KernelGradient(const Products& products, int64_t rows, const float* x,
                                const float* dy, int64_t begin, int64_t end,
                                float* gradient) const {
  if (products.own.has_value()) {
    products.own->KernelGradient(x, static_cast<size_t>(begin), static_cast<size_t>(end), gradient);
  } else {
    Multiply('T', x + begin, inputs_, dy, /*beta=*/0, gradient, end - begin, rows, units_);
  }
}

void DenseLayer::FinishGradients(const CpuPass& pass, const Products& products, const float* x,
                                 const float* dy) {
  const int64_t rows = RowsOf(pass.batch);
  if (bias_ >= 0) {
    SumColumns(dy, static_cast<size_t>(rows), static_cast<size_t>(units_),
               pass.gradients->Buffer(bias_).data());
    pass.gradients->Finished(bias_);
  }
  float* const gradient = pass.gradients->Buffer(kernel_).data();
  const int64_t part = PartRows(units_);
  for (int64_t begin = 0; begin < inputs_; begin += part) {
    const int64_t end = std::min(begin + part, inputs_);
    KernelGradient(products, rows, x, dy, begin, end, gradient + begin * units_);
    pass.gradients->FinishedFirst(kernel_, static_cast<size_t>(end * units_));
  }
  pass.gradients->Finished(kernel_);
}

void DenseLayer::Backward(const CpuPass& pass, const float* x, const float* y, float* dy,
                          float* dx) {
  activation_.Backward(pass.batch, y, dy, dy);
  Products& products = ForBatch(pass.batch);
  if (products.own.has_value()) products.own->SetOutputGradient(dy);
  if (trained_) FinishGradients(pass, products, x, dy);
  if (dx == nullptr) return;
  if (products.own.has_value()) return products.own->InputGradient(parameters_[kKernel], dx);
  products.input_gradient->Run(
      {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, parameters_[kKernel]}, {DNNL_ARG_DST, dx}});
}

}  // namespace millrace::worker
