#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

struct Rescale {
  MILLRACE_DEVICE float operator()(float x) const { return x * scale + offset; }
  float scale;
  float offset;
};

struct Scale {
  MILLRACE_DEVICE float operator()(float dy) const { return dy * scale; }
  float scale;
};

class RescalingLayer final : public Layer {
 public:
  RescalingLayer(const Context& context, const RescalingDescription& description)
      : stream_(context.stream), description_(description) {}

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    Apply(stream_, Rescale{description_.scale, description_.offset}, Elements(pass), x[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] != nullptr) Apply(stream_, Scale{description_.scale}, Elements(pass), dy, dx[0]);
  }

 private:
  size_t Elements(const Pass& pass) const {
    return pass.batch * static_cast<size_t>(description_.elements);
  }

  const cudaStream_t stream_;
  const RescalingDescription description_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const RescalingDescription& description) {
  return std::make_unique<RescalingLayer>(context, description);
}

}  // namespace millrace::cuda
