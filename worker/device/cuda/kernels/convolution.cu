#include <algorithm>
#include <memory>

#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/convolution.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

constexpr size_t kConvolutionKernel = 0;  // As in LayerPlan (worker/model/layer_plan.h).
constexpr size_t kConvolutionBias = 1;

// Whether the kernel sees a pixel alone, each one once: then it is a dense layer on each pixel.
bool IsDense(const WindowDescription& window) {
  const std::array<int64_t, 2> ones = {1, 1};
  return window.size == ones && window.strides == ones && window.groups == 1;
}

class ConvolutionLayer final : public Layer {
 public:
  ConvolutionLayer(const Context& context, const ConvolutionDescription& description)
      : stream_(context.stream),
        windows_(MakeWindows(description.window)),
        function_(description.function),
        kernel_(description.variables[kConvolutionKernel]),
        bias_(description.variables[kConvolutionBias]),
        trained_(description.trained),
        precision_(description.precision) {}

  size_t WorkspaceBytes(size_t batch) const override {
    if (!trained_) return 0;
    const auto images = static_cast<int64_t>(batch);
    return std::max(is_depthwise() ? DepthwiseKernelGradientBytes(windows_, images)
                                   : KernelGradientBytes(windows_, images),
                    SumColumnsWorkspaceBytes(Positions(batch), windows_.filters));
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    ConvolutionForward forward;
    forward.batch = static_cast<int64_t>(pass.batch);
    forward.x = x[0];
    forward.kernel = pass.parameters[kConvolutionKernel];
    forward.bias = pass.parameters[kConvolutionBias];
    forward.relu = function_ == Function::kRelu;
    forward.precision = precision_;
    forward.y = y;
    is_depthwise() ? ConvolveDepthwise(stream_, windows_, forward)
                   : Convolve(stream_, windows_, forward);
    if (forward.relu || function_ == Function::kLinear) return;
    ApplyFunction(stream_, function_, Positions(pass.batch), windows_.filters, y);
  }

  void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                float* const* dx) override {
    MakeInnerGradient(pass, y, dy);
    if (trained_) FinishKernelGradient(pass, x[0], dy);
    if (dx[0] == nullptr) return;
    const InputGradient gradient = {static_cast<int64_t>(pass.batch), dy,
                                    pass.parameters[kConvolutionKernel], dx[0], precision_};
    is_depthwise() ? ConvolveDepthwiseBack(stream_, windows_, gradient)
                   : ConvolveBack(stream_, windows_, gradient);
  }

 private:
  bool is_depthwise() const { return windows_.groups > 1 && windows_.groups == windows_.channels; }

  int64_t Positions(size_t batch) const {
    return static_cast<int64_t>(batch) * windows_.output_positions();
  }

  // In dy's place. Finishes the gradient of the bias.
  void MakeInnerGradient(const Pass& pass, const float* y, float* dy) const {
    const int64_t positions = Positions(pass.batch);
    if (!trained_ || bias_ < 0) {
      return ApplyGradient(stream_, function_, positions, windows_.filters, y, dy, dy);
    }
    SumColumns(stream_, positions, windows_.filters, InnerGradient{function_, y, dy},
               pass.workspace, pass.gradients->Buffer(bias_));
    pass.gradients->Finished(bias_);
  }

  void FinishKernelGradient(const Pass& pass, const float* x, const float* dy) const {
    const KernelGradient gradient = {static_cast<int64_t>(pass.batch),
                                     x,
                                     dy,
                                     pass.gradients->Buffer(kernel_),
                                     pass.workspace,
                                     precision_};
    is_depthwise() ? SumDepthwiseKernelGradient(stream_, windows_, gradient)
                   : SumKernelGradient(stream_, windows_, gradient);
    pass.gradients->Finished(kernel_);
  }

  const cudaStream_t stream_;
  const Windows windows_;
  const Function function_;
  const int kernel_;  // As in ConvolutionDescription::variables.
  const int bias_;
  const bool trained_;
  const Precision precision_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const ConvolutionDescription& description) {
  const WindowDescription& window = description.window;
  if (!IsDense(window)) return std::make_unique<ConvolutionLayer>(context, description);
  DenseDescription dense;
  dense.rows = window.input[0] * window.input[1];
  dense.inputs = window.input[2];
  dense.units = window.output[2];
  dense.function = description.function;
  dense.variables = description.variables;
  dense.trained = description.trained;
  dense.precision = description.precision;
  return MakeLayer(context, dense);
}

}  // namespace millrace::cuda
