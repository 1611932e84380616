// Means and largest values of channels. A block takes a band of an image's channels; its threads
// stand in lanes, each of which goes through some of the positions.
#include <memory>

#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

constexpr int kBand = 32;  // Channels.
constexpr int kBandLanes = 8;

struct GlobalImages {
  int64_t batch = 0;
  int positions = 0;
  int channels = 0;

  MILLRACE_HOST_DEVICE int64_t elements() const { return int64_t{positions} * channels; }
};

__global__ void GlobalMeans(GlobalImages images, const float* __restrict__ x,
                            float* __restrict__ y) {
  __shared__ float lanes[kBandLanes][kBand];
  const int channel = static_cast<int>(blockIdx.x * kBand + threadIdx.x);
  for (int64_t image = blockIdx.y; image < images.batch; image += gridDim.y) {
    const float* const from = x + image * images.elements();
    float sum = 0;
    if (channel < images.channels) {
      for (int i = static_cast<int>(threadIdx.y); i < images.positions; i += kBandLanes) {
        sum += from[int64_t{i} * images.channels + channel];
      }
    }
    lanes[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = kBandLanes / 2; half > 0; half /= 2) {
      if (threadIdx.y < half) {
        lanes[threadIdx.y][threadIdx.x] += lanes[threadIdx.y + half][threadIdx.x];
      }
      __syncthreads();
    }
    if (threadIdx.y == 0 && channel < images.channels) {
      y[image * images.channels + channel] =
          lanes[0][threadIdx.x] / static_cast<float>(images.positions);
    }
  }
}

struct GlobalLargest {
  float value;
  int position;
};

// What going through both, one position after the other, would end with: of equal values the first,
// and of NaN the last.
MILLRACE_DEVICE GlobalLargest LargerOf(const GlobalLargest& a, const GlobalLargest& b) {
  const bool a_is_nan = a.value != a.value;
  const bool b_is_nan = b.value != b.value;
  if (a_is_nan && b_is_nan) return a.position > b.position ? a : b;
  if (a_is_nan || b_is_nan) return a_is_nan ? a : b;
  if (a.value == b.value) return a.position < b.position ? a : b;
  return a.value > b.value ? a : b;
}

__global__ void GlobalMaxima(GlobalImages images, const float* __restrict__ x,
                             float* __restrict__ y, uint32_t* __restrict__ winners) {
  __shared__ GlobalLargest lanes[kBandLanes][kBand];
  const int channel = static_cast<int>(blockIdx.x * kBand + threadIdx.x);
  for (int64_t image = blockIdx.y; image < images.batch; image += gridDim.y) {
    const float* const from = x + image * images.elements();
    GlobalLargest largest = {0, 0};
    if (channel < images.channels) {
      largest = {from[channel], 0};
      for (int i = static_cast<int>(threadIdx.y); i < images.positions; i += kBandLanes) {
        largest = LargerOf(largest, {from[int64_t{i} * images.channels + channel], i});
      }
    }
    lanes[threadIdx.y][threadIdx.x] = largest;
    __syncthreads();
    for (unsigned half = kBandLanes / 2; half > 0; half /= 2) {
      if (threadIdx.y < half) {
        lanes[threadIdx.y][threadIdx.x] =
            LargerOf(lanes[threadIdx.y][threadIdx.x], lanes[threadIdx.y + half][threadIdx.x]);
      }
      __syncthreads();
    }
    if (threadIdx.y == 0 && channel < images.channels) {
      y[image * images.channels + channel] = lanes[0][threadIdx.x].value;
      winners[image * images.channels + channel] =
          static_cast<uint32_t>(lanes[0][threadIdx.x].position);
    }
  }
}

// An element of an image takes its channel's share of dy, or, if there are winners, all of it if it
// is the one.
__global__ void SpreadGlobal(GlobalImages images, Divisor channels, const uint32_t* winners,
                             const float* __restrict__ dy, float* __restrict__ dx) {
  const auto positions = static_cast<float>(images.positions);
  for (int64_t image = blockIdx.y; image < images.batch; image += gridDim.y) {
    const int64_t first = image * images.channels;
    for (int64_t i = FirstElement(); i < images.elements(); i += ElementStride()) {
      const uint32_t position = channels.Quotient(static_cast<uint32_t>(i));
      const int64_t channel = first + i - int64_t{position} * images.channels;
      const float gradient = dy[channel];
      dx[image * images.elements() + i] = winners == nullptr             ? gradient / positions
                                          : winners[channel] == position ? gradient
                                                                         : 0.0f;
    }
  }
}

class GlobalPoolingLayer final : public Layer {
 public:
  GlobalPoolingLayer(const Context& context, const GlobalPoolingDescription& description)
      : stream_(context.stream),
        positions_(static_cast<int>(description.positions)),
        channels_(static_cast<int>(description.channels)),
        largest_(description.largest) {}

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    const GlobalImages images = ImagesOf(pass);
    if (images.batch == 0) return;
    const dim3 blocks(static_cast<unsigned>((channels_ + kBand - 1) / kBand), ImageBlocks(images));
    const dim3 threads(kBand, kBandLanes);
    if (largest_) {
      Launch(stream_, blocks, threads, GlobalMaxima, images, x[0], y,
             reinterpret_cast<uint32_t*>(pass.kept));
    } else {
      Launch(stream_, blocks, threads, GlobalMeans, images, x[0], y);
    }
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    const GlobalImages images = ImagesOf(pass);
    if (images.batch == 0 || dx[0] == nullptr) return;
    const dim3 blocks(BlocksFor(static_cast<size_t>(images.elements())), ImageBlocks(images));
    Launch(stream_, blocks, kThreads, SpreadGlobal, images,
           Divisor(static_cast<uint32_t>(channels_)),
           largest_ ? reinterpret_cast<const uint32_t*>(pass.kept) : nullptr, dy, dx[0]);
  }

 private:
  GlobalImages ImagesOf(const Pass& pass) const {
    return {static_cast<int64_t>(pass.batch), positions_, channels_};
  }

  static unsigned ImageBlocks(const GlobalImages& images) {
    constexpr int64_t kMostImages = 8192;
    return static_cast<unsigned>(std::min(images.batch, kMostImages));
  }

  const cudaStream_t stream_;
  const int positions_;  // At most 2^28 elements (worker/model/layer_plan.h).
  const int channels_;
  const bool largest_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const GlobalPoolingDescription& description) {
  return std::make_unique<GlobalPoolingLayer>(context, description);
}

}  // namespace millrace::cuda
