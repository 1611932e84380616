// Forwards y = function(x kernel + bias); backwards, with dz the gradient by what the function
// takes: bias: the sums of dz's columns; kernel: x^T dz; x: dz kernel^T.
//
// Where factors are rounded to bfloat16, each is so once in a step. x and the kernel are rounded
// forwards to what is carried to the backward pass, the kernel first; dz while its columns are
// summed, where there is a bias. A forward pass that no backward pass follows leaves rounding to
// the product. What is narrow was rounded when it was made.
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
  bool trains_bias() const { return description_.trained && has_bias(); }
  bool has_relu() const { return description_.function == Function::kRelu; }
  ProductShape Output(int64_t rows) const;
  ProductShape KernelGradient(int64_t rows) const;
  ProductShape InputGradient(int64_t rows) const;
  bool rounds() const { return description_.precision == Precision::kBfloat16; }
  bool rounds_input() const { return rounds() && !description_.narrow_input; }
  bool rounds_output_gradient() const { return rounds() && !description_.narrow_output; }
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
  void* CarriedKernel(const Pass& pass) const { return rounds() ? pass.carried : nullptr; }
  void* CarriedInput(const Pass& pass) const;
  // The factor of several products, rounded to `place`; where that is null, as it is.
  Factor Narrowed(const float* factor, size_t elements, void* place) const;
  // x, for the product backwards.
  Factor InputFactor(const Pass& pass, const float* x) const;
  // dz, for the products that take it. Finishes the gradient of the bias.
  Factor InnerFactor(const Pass& pass, const float* y, float* dy) const;
  Factor NarrowInnerFactor(const Pass& pass, const void* y, void* dy) const;
  template <typename Gradient>
  void SumBias(const Pass& pass, const Gradient& gradient) const;

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
  shape.relu = has_relu();
  shape.narrow = description_.narrow_output;
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
  shape.narrow = description_.narrow_input;
  return shape;
}

// Backwards dz alone is rounded there, behind the product's own; the sums of columns need less than
// that.
size_t DenseLayer::WorkspaceBytes(size_t batch) const {
  const int64_t rows = RowsOf(batch);
  const size_t narrow = rounds_output_gradient() ? Products::NarrowBytes(OutputElements(rows)) : 0;
  const size_t given = description_.narrow_input ? Products::NarrowBytes(InputElements(rows)) : 0;
  return std::max({SumColumnsWorkspaceBytes(rows, description_.units),
                   context_.products->WorkspaceBytes(Output(rows)) - given,
                   kProductWorkspace + narrow});
}

// A layer that is not trained needs x no more.
size_t DenseLayer::CarriedBytes(size_t batch) const {
  if (!rounds()) return 0;
  const bool carries_input = description_.trained && rounds_input();
  const size_t input = carries_input ? InputElements(RowsOf(batch)) : 0;
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
  if (kernel == nullptr || !description_.trained || !rounds_input()) return nullptr;
  return static_cast<char*>(kernel) + Products::NarrowBytes(KernelElements());
}

Factor DenseLayer::Narrowed(const float* factor, size_t elements, void* place) const {
  return place == nullptr ? factor : context_.products->Narrow(factor, elements, place);
}

Factor DenseLayer::InputFactor(const Pass& pass, const float* x) const {
  return description_.narrow_input ? Factor(nullptr, x) : Factor(x, CarriedInput(pass));
}

void DenseLayer::Forward(const Pass& pass, const float* const* x, float* y) {
  const int64_t rows = RowsOf(pass.batch);
  const ProductShape shape = Output(rows);
  const Factor input = description_.narrow_input
                           ? Factor(nullptr, x[0])
                           : Narrowed(x[0], InputElements(rows), CarriedInput(pass));
  const Factor kernel =
      Narrowed(pass.parameters[kDenseKernel], KernelElements(), CarriedKernel(pass));
  context_.products->Multiply(shape, input, kernel, pass.parameters[kDenseBias], y, pass.workspace);
  if (shape.relu || description_.function == Function::kLinear) return;
  ApplyFunction(context_.stream, description_.function, rows, description_.units, y);
}

template <typename Gradient>
void DenseLayer::SumBias(const Pass& pass, const Gradient& gradient) const {
  const int bias = description_.variables[kDenseBias];
  SumColumns(context_.stream, RowsOf(pass.batch), description_.units, gradient, pass.workspace,
             pass.gradients->Buffer(bias));
  pass.gradients->Finished(bias);
}

Factor DenseLayer::NarrowInnerFactor(const Pass& pass, const void* y, void* dy) const {
  if (trains_bias()) {
    SumBias(pass, NarrowInnerGradient{description_.function, y, dy});
  } else if (has_relu()) {
    ApplyNarrowReluGradient(context_.stream, OutputElements(RowsOf(pass.batch)), y, dy);
  }
  return {nullptr, dy};
}

Factor DenseLayer::InnerFactor(const Pass& pass, const float* y, float* dy) const {
  if (description_.narrow_output) return NarrowInnerFactor(pass, y, dy);
  void* const narrow = rounds() ? static_cast<char*>(pass.workspace) + kProductWorkspace : nullptr;
  if (trains_bias()) {
    SumBias(pass, InnerGradient{description_.function, y, dy, narrow});
    return {dy, narrow};
  }
  const int64_t rows = RowsOf(pass.batch);
  ApplyGradient(context_.stream, description_.function, rows, description_.units, y, dy, dy);
  return Narrowed(dy, OutputElements(rows), narrow);
}

void DenseLayer::Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                          float* const* dx) {
  if (!description_.trained && dx[0] == nullptr) return;
  const int64_t rows = RowsOf(pass.batch);
  const Factor dz = InnerFactor(pass, y, dy);
  if (description_.trained) {
    const int kernel = description_.variables[kDenseKernel];
    context_.products->Multiply(KernelGradient(rows), InputFactor(pass, x[0]), dz,
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
