#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

// Formulas are those of worker/device/cpu/layers/activation.cc.

struct LeakyRelu {
  MILLRACE_DEVICE float operator()(float x) const { return x < 0 ? x * negative_slope : x; }
  float negative_slope;
};
struct LeakyReluGradient {
  MILLRACE_DEVICE float operator()(float x, float dy) const {
    return dy * (x > 0 ? 1.0f : negative_slope);
  }
  float negative_slope;
};

MILLRACE_DEVICE float PlainSigmoid(float x) { return 1 / (1 + expf(-x)); }

struct Silu {
  MILLRACE_DEVICE float operator()(float x) const { return x * PlainSigmoid(x); }
};
struct SiluGradient {
  MILLRACE_DEVICE float operator()(float x, float dy) const {
    const float sigmoid = PlainSigmoid(x);
    return dy * (sigmoid * (1 + x * (1 - sigmoid)));
  }
};

constexpr float kSqrtHalf = 0.70710678f;
constexpr float kSqrtHalfOverPi = 0.39894228f;

struct Gelu {
  MILLRACE_DEVICE float operator()(float x) const { return 0.5f * x * (1 + erff(x * kSqrtHalf)); }
};
struct GeluGradient {
  MILLRACE_DEVICE float operator()(float x, float dy) const {
    return dy * (0.5f * (1 + erff(x * kSqrtHalf)) + x * kSqrtHalfOverPi * expf(-0.5f * x * x));
  }
};

constexpr float kSqrt2OverPi = 0.79788456f;
constexpr float kCubic = 0.044715f;

MILLRACE_DEVICE float TanhOfGelu(float x) { return tanhf(kSqrt2OverPi * (x + kCubic * x * x * x)); }

struct GeluTanh {
  MILLRACE_DEVICE float operator()(float x) const { return 0.5f * x * (1 + TanhOfGelu(x)); }
};
struct GeluTanhGradient {
  MILLRACE_DEVICE float operator()(float x, float dy) const {
    const float tanh = TanhOfGelu(x);
    return dy * (0.5f * (1 + tanh) +
                 0.5f * x * (1 - tanh * tanh) * kSqrt2OverPi * (1 + 3 * kCubic * x * x));
  }
};

class ActivationLayer final : public Layer {
 public:
  ActivationLayer(const Context& context, const ActivationDescription& description)
      : stream_(context.stream), description_(description) {}

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    const size_t count = Elements(pass);
    switch (description_.function) {
      case Function::kLeakyRelu:
        return Apply(stream_, LeakyRelu{description_.negative_slope}, count, x[0], y);
      case Function::kSilu:
        return Apply(stream_, Silu(), count, x[0], y);
      case Function::kGelu:
        return Apply(stream_, Gelu(), count, x[0], y);
      case Function::kGeluTanh:
        return Apply(stream_, GeluTanh(), count, x[0], y);
      default:
        return ApplyFunction(stream_, description_.function, Rows(pass), description_.columns, x[0],
                             y);
    }
  }

  void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                float* const* dx) override {
    if (dx[0] == nullptr) return;
    const size_t count = Elements(pass);
    switch (description_.function) {
      case Function::kLeakyRelu:
        return ApplyGradient(stream_, LeakyReluGradient{description_.negative_slope}, count, x[0],
                             dy, dx[0]);
      case Function::kSilu:
        return ApplyGradient(stream_, SiluGradient(), count, x[0], dy, dx[0]);
      case Function::kGelu:
        return ApplyGradient(stream_, GeluGradient(), count, x[0], dy, dx[0]);
      case Function::kGeluTanh:
        return ApplyGradient(stream_, GeluTanhGradient(), count, x[0], dy, dx[0]);
      default:
        return ApplyGradient(stream_, description_.function, Rows(pass), description_.columns, y,
                             dy, dx[0]);
    }
  }

 private:
  int64_t Rows(const Pass& pass) const {
    return static_cast<int64_t>(pass.batch) * description_.rows;
  }
  size_t Elements(const Pass& pass) const {
    return static_cast<size_t>(Rows(pass) * description_.columns);
  }

  const cudaStream_t stream_;
  const ActivationDescription description_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const ActivationDescription& description) {
  return std::make_unique<ActivationLayer>(context, description);
}

}  // namespace millrace::cuda
