// Forwards y = function(x kernel + bias); backwards, with dz the gradient by what the function
// takes: bias: the sums of dz's columns; kernel: x^T dz; x: dz kernel^T.
//
// Where factors are rounded to bfloat16, each is so once in a step. x and the kernel are rounded
// forwards to what is carried to the backward pass, the kernel first; dz while its columns are
// summed, where there is a bias. A forward pass that no backward pass follows leaves rounding to
// the product.
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
  size_t CarriedBytes(size_t batch) const override;
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
  bool is_narrow() const { return description_.precision == Precision::kBfloat16; }
  size_t KernelElements() const {
    return static_cast<size_t>(description_.inputs * description_.units);
  }
  size_t InputElements(int64_t rows) const {
    return static_cast<size_t>(rows * description_.inputs);
  }
  size_t OutputElements(int64_t rows) const {
    return static_cast<size_t>(rows * description_.units);
  }
  // Of what is carried; null where nothing is.
  void* CarriedKernel(const Pass& pass) const { return is_narrow() ? pass.carried : nullptr; }
  void* CarriedInput(const Pass& pass) const;
  // The factor of several products, rounded to `place`; where that is null, as it is.
  Factor Narrowed(const float* factor, size_t elements, void* place) const;
  // dz, for the products that take it. Finishes the gradient of the bias.
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

// Backwards dz alone is rounded there, behind the product's own; the sums of columns need less than
// that.
size_t DenseLayer::WorkspaceBytes(size_t batch) const {
  const int64_t rows = RowsOf(batch);
  const size_t narrow = is_narrow() ? Products::NarrowBytes(OutputElements(rows)) : 0;
  return std::max({SumColumnsWorkspaceBytes(rows, description_.units),
                   context_.products->WorkspaceBytes(Output(rows)), kProductWorkspace + narrow});
}

// A layer that is not trained needs x no more.
size_t DenseLayer::CarriedBytes(size_t batch) const {
  if (!is_narrow()) return 0;
  const size_t input = description_.trained ? InputElements(RowsOf(batch)) : 0;
  return Products::NarrowBytes(KernelElements()) + Products::NarrowBytes(input);
}

void DenseLayer::Prepare(size_t batch, bool training) {
  const int64_t rows = RowsOf(batch);
  context_.products->Prepare(Output(rows));
  if (!training) return;
  if (description_.trained) context_.products->Prepare(KernelGradient(rows));
  context_.products->Prepare(InputGradient(rows));
}

void* DenseLayer::CarriedInput(const Pass& pass) const {
  void* const kernel = CarriedKernel(pass);
  if (kernel == nullptr || !description_.trained) return nullptr;
  return static_cast<char*>(kernel) + Products::NarrowBytes(KernelElements());
}

Factor DenseLayer::Narrowed(const float* factor, size_t elements, void* place) const {
  return place == nullptr ? factor : context_.products->Narrow(factor, elements, place);
}

void DenseLayer::Forward(const Pass& pass, const float* const* x, float* y) {
  const int64_t rows = RowsOf(pass.batch);
  const ProductShape shape = Output(rows);
  const Factor input = Narrowed(x[0], InputElements(rows), CarriedInput(pass));
  const Factor kernel =
      Narrowed(pass.parameters[kDenseKernel], KernelElements(), CarriedKernel(pass));
  context_.products->Multiply(shape, input, kernel, pass.parameters[kDenseBias], y, pass.workspace);
  if (shape.relu || description_.function == Function::kLinear) return;
  ApplyFunction(context_.stream, description_.function, rows, description_.units, y);
}

Factor DenseLayer::InnerFactor(const Pass& pass, const float* y, float* dy) const {
  const int64_t rows = RowsOf(pass.batch);
  void* const narrow =
      is_narrow() ? static_cast<char*>(pass.workspace) + kProductWorkspace : nullptr;
  if (!description_.trained || !has_bias()) {
    ApplyGradient(context_.stream, description_.function, rows, description_.units, y, dy, dy);
    return Narrowed(dy, OutputElements(rows), narrow);
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
    context_.products->Multiply(KernelGradient(rows), {x[0], CarriedInput(pass)}, dz,
                                /*bias=*/nullptr, pass.gradients->Buffer(kernel), pass.workspace);
    pass.gradients->Finished(kernel);
  }
  if (dx[0] == nullptr) return;
  context_.products->Multiply(InputGradient(rows), dz,
                              {pass.parameters[kDenseKernel], CarriedKernel(pass)},
                              /*bias=*/nullptr, dx[0], pass.workspace);
}

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const DenseDescription& description) {
  return std::make_unique<DenseLayer>(context, description);
}

}  // namespace millrace::cuda
