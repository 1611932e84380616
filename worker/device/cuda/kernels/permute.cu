#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/strides.h"

namespace millrace::cuda {
namespace {

MILLRACE_DEVICE size_t InputOf(const Strides<1>& strides, size_t i) {
  Offsets<1> offsets = {};
  AddOffsets(strides, i, &offsets);
  return offsets.of[0];
}

__global__ void PermuteKernel(Strides<1> strides, size_t count, const float* x, float* y) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) y[i] = x[InputOf(strides, i)];
}

__global__ void PermuteGradientKernel(Strides<1> strides, size_t count, const float* dy,
                                      float* dx) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) dx[InputOf(strides, i)] = dy[i];
}

class PermuteLayer final : public Layer {
 public:
  PermuteLayer(const Context& context, const PermuteDescription& description)
      : stream_(context.stream) {
    std::vector<Dimension> dimensions(1);
    for (size_t i = 0; i < description.output.size(); ++i) {
      elements_ *= static_cast<size_t>(description.output[i]);
      dimensions.push_back({description.output[i], {description.strides[i]}});
    }
    dimensions[0].strides = {static_cast<int64_t>(elements_)};
    for (const Dimension& dimension : Joined(dimensions)) {
      strides_.Add(dimension);
      strides_.SetStride(0, dimension.strides[0]);
    }
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    LaunchFor(stream_, pass.batch * elements_, PermuteKernel, strides_, pass.batch * elements_,
              x[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] == nullptr) return;
    LaunchFor(stream_, pass.batch * elements_, PermuteGradientKernel, strides_,
              pass.batch * elements_, dy, dx[0]);
  }

 private:
  const cudaStream_t stream_;
  size_t elements_ = 1;  // Of an example.
  Strides<1> strides_;   // Of the output's elements in the input.
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const PermuteDescription& description) {
  return std::make_unique<PermuteLayer>(context, description);
}

}  // namespace millrace::cuda
