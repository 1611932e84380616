// Forwards y = function(x kernel + bias); backwards, with dz the gradient by what the function
// takes: bias: the sums of dz's columns; kernel: x^T dz; x: dz kernel^T.
//
// Where factors are rounded to bfloat16, each is so once in a step. x and the kernel are rounded
// forwards to what is carried to the backward pass, the kernel first; dz while its columns are
// summed, where there is a bias. A forward pass that no backward pass follows leaves rounding to
// the product. What is narrow was rounded when it was made; dz then takes dy's place.
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
  bool rounds_kernel() const { return description_.precision == Precision::kBfloat16; }
  bool rounds_input() const { return rounds_kernel() && !description_.narrow_input; }
  bool rounds_output_gradient() const { return rounds_kernel() && !description_.narrow_output; }
  // A layer that is not trained needs x no more.
  bool carries_input() const { return rounds_input() && description_.trained; }
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
  void* CarriedKernel(const Pass& pass) const { return rounds_kernel() ? pass.carried : nullptr; }
  void* CarriedInput(const Pass& pass) const;
  // Rounds a factor of several products; does nothing where `place` is null.
  void Round(const float* factor, size_t elements, void* place) const;
  // x and the kernel, after Round.
  Factor InputFactor(const Pass& pass, const float* x) const;
  Factor KernelFactor(const Pass& pass) const;
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
  shape.narrow_result = description_.narrow_output;
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
  shape.narrow_result = description_.narrow_input;
  return shape;
}

// Backwards dz alone is rounded there, behind the product's own; the sums of columns need less than
// that. An input that is narrow is not rounded.
size_t DenseLayer::WorkspaceBytes(size_t batch) const {
  const int64_t rows = RowsOf(batch);
  const size_t rounded_gradient =
      rounds_output_gradient() ? Products::NarrowBytes(OutputElements(rows)) : 0;
  const size_t narrow_input =
      description_.narrow_input ? Products::NarrowBytes(InputElements(rows)) : 0;
  return std::max({SumColumnsWorkspaceBytes(rows, description_.units),
                   context_.products->WorkspaceBytes(Output(rows)) - narrow_input,
                   kProductWorkspace + rounded_gradient});
}

size_t DenseLayer::CarriedBytes(size_t batch) const {
  if (!rounds_kernel()) return 0;
  const size_t input = carries_input() ? InputElements(RowsOf(batch)) : 0;
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
  if (kernel == nullptr || !carries_input()) return nullptr;
  return static_cast<char*>(kernel) + Products::NarrowBytes(KernelElements());
}

void DenseLayer::Round(const float* factor, size_t elements, void* place) const {
  if (place != nullptr) context_.products->Narrow(factor, elements, place);
}

Factor DenseLayer::InputFactor(const Pass& pass, const float* x) const {
  return description_.narrow_input ? Factor::OfNarrow(x) : Factor(x, CarriedInput(pass));
}

Factor DenseLayer::KernelFactor(const Pass& pass) const {
  return {pass.parameters[kDenseKernel], CarriedKernel(pass)};
}

void DenseLayer::Forward(const Pass& pass, const float* const* x, float* y) {
  const int64_t rows = RowsOf(pass.batch);
  const ProductShape shape = Output(rows);
  Round(x[0], InputElements(rows), CarriedInput(pass));
  Round(pass.parameters[kDenseKernel], KernelElements(), CarriedKernel(pass));
  context_.products->Multiply(shape, InputFactor(pass, x[0]), KernelFactor(pass),
                              pass.parameters[kDenseBias], y, pass.workspace);
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
  return Factor::OfNarrow(dy);
}

Factor DenseLayer::InnerFactor(const Pass& pass, const float* y, float* dy) const {
  if (description_.narrow_output) return NarrowInnerFactor(pass, y, dy);
  const int64_t rows = RowsOf(pass.batch);
  void* const rounded =
      rounds_output_gradient() ? static_cast<char*>(pass.workspace) + kProductWorkspace : nullptr;
  if (trains_bias()) {
    SumBias(pass, InnerGradient{description_.function, y, dy, rounded});
  } else {
    ApplyGradient(context_.stream, description_.function, rows, description_.units, y, dy, dy);
    Round(dy, OutputElements(rows), rounded);
  }
  return {dy, rounded};
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
  context_.products->Multiply(InputGradient(rows), dz, KernelFactor(pass), /*bias=*/nullptr, dx[0],
                              pass.workspace);
}

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const DenseDescription& description) {
  return std::make_unique<DenseLayer>(context, description);
}

}  // namespace millrace::cuda
