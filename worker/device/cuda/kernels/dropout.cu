// The masks are those of worker/device/cpu/layers/dropout.cc, bit by bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

// As worker/split_mix.h.
MILLRACE_DEVICE uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

MILLRACE_DEVICE uint32_t Mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352d;
  x = (x ^ (x >> 15)) * 0x846ca68b;
  return x ^ (x >> 16);
}

// blockIdx.y strides over examples, the threads over each one's elements. `to` may be `from`.
__global__ void DropoutKernel(DropoutDescription dropout, const uint64_t* seed, size_t first,
                              size_t batch, const float* from, float* to) {
  const uint64_t layer_key = SplitMix64(SplitMix64(*seed) + dropout.layer);
  const auto elements = static_cast<size_t>(dropout.elements);
  for (size_t example = blockIdx.y; example < batch; example += gridDim.y) {
    const uint64_t key = SplitMix64(layer_key + first + example);
    const auto low = static_cast<uint32_t>(key);
    const auto high = static_cast<uint32_t>(key >> 32);
    for (size_t i = FirstElement(); i < elements; i += ElementStride()) {
      const uint32_t hash = Mix32(Mix32(static_cast<uint32_t>(i) + low) ^ high);
      const size_t place = example * elements + i;
      to[place] = hash < dropout.threshold ? 0 : from[place] * dropout.scale;
    }
  }
}

class DropoutLayer final : public Layer {
 public:
  DropoutLayer(const Context& context, const DropoutDescription& description)
      : stream_(context.stream), description_(description) {}

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    if (pass.training) return Mask(pass, x[0], y);
    CopyFloats(stream_, pass.batch * static_cast<size_t>(description_.elements), x[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] != nullptr) Mask(pass, dy, dx[0]);
  }

 private:
  // to = mask * from * scale.
  void Mask(const Pass& pass, const float* from, float* to) {
    constexpr size_t kMostRows = 32768;
    constexpr size_t kElementsOfThread = 4;  // So many at least, for the work that each key is.
    if (pass.batch == 0 || description_.elements == 0) return;
    const auto elements = static_cast<size_t>(description_.elements);
    const dim3 blocks(BlocksFor(elements / kElementsOfThread),
                      static_cast<unsigned>(std::min(pass.batch, kMostRows)));
    // Few elements take few threads: whole warps.
    const auto threads = static_cast<unsigned>(
        std::clamp<size_t>((elements / kElementsOfThread + 31) / 32 * 32, 32, kThreads));
    Launch(stream_, blocks, threads, DropoutKernel, description_, pass.seed, pass.first, pass.batch,
           from, to);
  }

  const cudaStream_t stream_;
  const DropoutDescription description_;
};

}  // namespace

std::unique_ptr<Layer> MakeDropout(const Context& context, const DropoutDescription& description) {
  return std::make_unique<DropoutLayer>(context, description);
}

}  // namespace millrace::cuda
