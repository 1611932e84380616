// Forwards y = function(x kernel + bias); backwards, with dz the gradient by what the function
// takes: bias: the sums of dz's columns; kernel: x^T dz; x: dz kernel^T. Where factors are rounded
// to bfloat16, dz is so once for both, while its columns are summed if there is a bias.
#include <algorithm>

#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/products.h"

namespace millrace::cuda {
namespace {

class DenseLayer final : public Layer {
 public:
  DenseLayer(const Context& context, const DenseDescription& description)
      : context_(context), description_(description) {}

  size_t WorkspaceBytes(size_t batch) const override;
  void Prepare(size_t batch, bool training) override;
  void Forward(const Pass& pass, const float* const* x, float* y) override;
  void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                float* const* dx) override;

 private:
  // Roles, as in worker/model/layer_plan.h.
  enum { kDenseKernel, kDenseBias };

  int64_t RowsOf(size_t batch) const { return static_cast<int64_t>(batch) * description_.rows; }
  bool has_bias() const { return description_.variables[kDenseBias] >= 0; }
  ProductShape Output(int64_t rows) const;
  ProductShape KernelGradient(int64_t rows) const;
  ProductShape InputGradient(int64_t rows) const;
  // What the products of the backward pass need.
  size_t BackwardBytes(int64_t rows) const;
  // dz for these, rounded where they take it so: to the end of BackwardBytes. Finishes the gradient
  // of the bias.
  Factor InnerFactor(const Pass& pass, const float* y, float* dy) const;

  const Context context_;
  const DenseDescription description_;
};

ProductShape DenseLayer::Output(int64_t rows) const {
  ProductShape shape;
  shape.rows = rows;
  shape.inner = description_.inputs;
  shape.columns = description_.units;
  shape.bias = has_bias();
  shape.precision = description_.precision;
  shape.relu = description_.function == Function::kRelu;
  return shape;
}

ProductShape DenseLayer::KernelGradient(int64_t rows) const {
  ProductShape shape;
  shape.rows = description_.inputs;
  shape.inner = rows;
  shape.columns = description_.units;
  shape.transpose_a = true;
  shape.precision = description_.precision;
  return shape;
}

ProductShape DenseLayer::InputGradient(int64_t rows) const {
  ProductShape shape;
  shape.rows = rows;
  shape.inner = description_.units;
  shape.columns = description_.inputs;
  shape.transpose_b = true;
  shape.precision = description_.precision;
  return shape;
}

size_t DenseLayer::WorkspaceBytes(size_t batch) const {
  const int64_t rows = RowsOf(batch);
  return std::max({SumColumnsWorkspaceBytes(rows, description_.units),
                   context_.products->WorkspaceBytes(Output(rows)), BackwardBytes(rows)});
}

void DenseLayer::Prepare(size_t batch, bool training) {
  const int64_t rows = RowsOf(batch);
  context_.products->Prepare(Output(rows));
  if (!training) return;
  if (description_.trained) context_.products->Prepare(KernelGradient(rows));
  context_.products->Prepare(InputGradient(rows));
}

size_t DenseLayer::BackwardBytes(int64_t rows) const {
  const size_t bytes = context_.products->WorkspaceBytes(InputGradient(rows));
  if (!description_.trained) return bytes;
  return std::max(bytes, context_.products->WorkspaceBytes(KernelGradient(rows)));
}

void DenseLayer::Forward(const Pass& pass, const float* const* x, float* y) {
  const int64_t rows = RowsOf(pass.batch);
  const ProductShape shape = Output(rows);
  context_.products->Multiply(shape, x[0], pass.parameters[kDenseKernel],
                              pass.parameters[kDenseBias], y, pass.workspace);
  if (shape.relu || description_.function == Function::kLinear) return;
  ApplyFunction(context_.stream, description_.function, rows, description_.units, y);
}

Factor DenseLayer::InnerFactor(const Pass& pass, const float* y, float* dy) const {
  const int64_t rows = RowsOf(pass.batch);
  const auto elements = static_cast<size_t>(rows * description_.units);
  void* narrow = nullptr;
  if (description_.precision == Precision::kBfloat16) {
    char* const end = static_cast<char*>(pass.workspace) + BackwardBytes(rows);
    narrow = end - Products::NarrowBytes(elements);
  }
  if (!description_.trained || !has_bias()) {
    ApplyGradient(context_.stream, description_.function, rows, description_.units, y, dy, dy);
    return narrow == nullptr ? dy : context_.products->Narrow(dy, elements, narrow);
  }
  const int bias = description_.variables[kDenseBias];
  SumColumns(context_.stream, rows, description_.units,
             InnerGradient{description_.function, y, dy, narrow}, pass.workspace,
             pass.gradients->Buffer(bias));
  pass.gradients->Finished(bias);
  return {dy, narrow};
}

void DenseLayer::Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                          float* const* dx) {
  if (!description_.trained && dx[0] == nullptr) return;
  const int64_t rows = RowsOf(pass.batch);
  const Factor dz = InnerFactor(pass, y, dy);
  if (description_.trained) {
    const int kernel = description_.variables[kDenseKernel];
    context_.products->Multiply(KernelGradient(rows), x[0], dz, /*bias=*/nullptr,
                                pass.gradients->Buffer(kernel), pass.workspace);
    pass.gradients->Finished(kernel);
  }
  if (dx[0] == nullptr) return;
  context_.products->Multiply(InputGradient(rows), dz, pass.parameters[kDenseKernel],
                              /*bias=*/nullptr, dx[0], pass.workspace);
}

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const DenseDescription& description) {
  return std::make_unique<DenseLayer>(context, description);
}

}  // namespace millrace::cuda
