// Largest values and means of windows. Threads side by side have channels side by side; images are
// in blocks' second direction. Back to the input each element's gradient is gathered by one thread
// from all windows that see it, in their order.
#include <memory>

#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/windows.h"

namespace millrace::cuda {
namespace {

// A batch of images, whose elements threads go through.
struct PooledImages {
  int64_t batch = 0;
  uint32_t elements = 0;  // Of an image.
  Divisor row;            // Elements of a row of it, and channels.
  Divisor channels;
};

struct PooledElement {
  int row;
  int column;
  int channel;
};

MILLRACE_DEVICE PooledElement PooledElementOf(const PooledImages& images, uint32_t element) {
  const uint32_t row = images.row.Quotient(element);
  const uint32_t rest = element - row * images.row.divisor();
  const uint32_t column = images.channels.Quotient(rest);
  return {static_cast<int>(row), static_cast<int>(column),
          static_cast<int>(rest - column * images.channels.divisor())};
}

PooledImages PooledImagesOf(size_t batch, int rows, int columns, int channels) {
  PooledImages images;
  images.batch = static_cast<int64_t>(batch);
  images.elements = static_cast<uint32_t>(rows) * columns * channels;
  images.row = Divisor(static_cast<uint32_t>(columns) * channels);
  images.channels = Divisor(static_cast<uint32_t>(channels));
  return images;
}

PooledImages InputImages(const Windows& windows, size_t batch) {
  return PooledImagesOf(batch, windows.rows.input, windows.columns.input, windows.channels);
}

PooledImages OutputImages(const Windows& windows, size_t batch) {
  return PooledImagesOf(batch, windows.rows.output, windows.columns.output, windows.channels);
}

// Calls visit(image, element, place) for each element that is this thread's.
template <typename Visit>
MILLRACE_DEVICE void ForPooled(const PooledImages& images, const Visit& visit) {
  for (int64_t image = blockIdx.y; image < images.batch; image += gridDim.y) {
    for (uint32_t i = static_cast<uint32_t>(FirstElement()); i < images.elements;
         i += static_cast<uint32_t>(ElementStride())) {
      visit(image, i, PooledElementOf(images, i));
    }
  }
}

template <typename... Parameters, typename... Arguments>
void LaunchForPooled(cudaStream_t stream, const PooledImages& images,
                     void (*kernel)(PooledImages, Parameters...), Arguments... arguments) {
  constexpr int64_t kMostImages = 8192;
  if (images.batch == 0) return;
  const dim3 blocks(BlocksFor(images.elements),
                    static_cast<unsigned>(std::min(images.batch, kMostImages)));
  Launch(stream, blocks, kThreads, kernel, images, arguments...);
}

// One value and which element of its image it is. Of equal ones the first wins; NaN is larger than
// all others, and the last of several wins.
struct Largest {
  float value;
  uint32_t element;

  MILLRACE_DEVICE void Take(float other, uint32_t other_element) {
    if (!(other > value || other != other)) return;
    value = other;
    element = other_element;
  }
};

__global__ void PoolLargest(PooledImages images, Windows windows, const float* __restrict__ x,
                            float* __restrict__ y, uint32_t* __restrict__ winners) {
  ForPooled(images, [&](int64_t image, uint32_t i, const PooledElement& place) {
    const float* const from = x + image * windows.input_elements();
    const SeenPositions rows = SeenBy(windows.rows, place.row);
    const SeenPositions columns = SeenBy(windows.columns, place.column);
    const auto element = [&](int row, int column) {
      return static_cast<uint32_t>((row * windows.columns.input + column) * windows.channels +
                                   place.channel);
    };
    const uint32_t first = element(rows.begin, columns.begin);
    Largest largest = {from[first], first};
    for (int row = rows.begin; row < rows.end; ++row) {
      for (int column = columns.begin; column < columns.end; ++column) {
        const uint32_t other = element(row, column);
        largest.Take(from[other], other);
      }
    }
    y[image * images.elements + i] = largest.value;
    winners[image * images.elements + i] = largest.element;
  });
}

__global__ void SpreadLargest(PooledImages images, Windows windows,
                              const uint32_t* __restrict__ winners, const float* __restrict__ dy,
                              float* __restrict__ dx) {
  const int64_t output_elements = windows.output_positions() * windows.channels;
  ForPooled(images, [&](int64_t image, uint32_t i, const PooledElement& place) {
    const WindowsOver rows = WindowsThatSee(windows.rows, place.row);
    const WindowsOver columns = WindowsThatSee(windows.columns, place.column);
    float sum = 0;
    for (int row = rows.first; row <= rows.last; ++row) {
      for (int column = columns.first; column <= columns.last; ++column) {
        const int64_t window = image * output_elements +
                               (row * windows.columns.output + column) * windows.channels +
                               place.channel;
        if (winners[window] == i) sum += dy[window];
      }
    }
    dx[image * images.elements + i] = sum;
  });
}

MILLRACE_DEVICE float AreaOf(const SeenPositions& rows, const SeenPositions& columns) {
  return static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
}

__global__ void PoolMeans(PooledImages images, Windows windows, const float* __restrict__ x,
                          float* __restrict__ y) {
  ForPooled(images, [&](int64_t image, uint32_t i, const PooledElement& place) {
    const float* const from = x + image * windows.input_elements();
    const SeenPositions rows = SeenBy(windows.rows, place.row);
    const SeenPositions columns = SeenBy(windows.columns, place.column);
    float sum = 0;
    for (int row = rows.begin; row < rows.end; ++row) {
      for (int column = columns.begin; column < columns.end; ++column) {
        sum += from[(row * windows.columns.input + column) * windows.channels + place.channel];
      }
    }
    y[image * images.elements + i] = sum / AreaOf(rows, columns);
  });
}

__global__ void SpreadMeans(PooledImages images, Windows windows, const float* __restrict__ dy,
                            float* __restrict__ dx) {
  ForPooled(images, [&](int64_t image, uint32_t i, const PooledElement& place) {
    const float* const from = dy + image * windows.output_positions() * windows.channels;
    const WindowsOver rows = WindowsThatSee(windows.rows, place.row);
    const WindowsOver columns = WindowsThatSee(windows.columns, place.column);
    float sum = 0;
    for (int row = rows.first; row <= rows.last; ++row) {
      const SeenPositions seen = SeenBy(windows.rows, row);
      for (int column = columns.first; column <= columns.last; ++column) {
        sum += from[(row * windows.columns.output + column) * windows.channels + place.channel] /
               AreaOf(seen, SeenBy(windows.columns, column));
      }
    }
    dx[image * images.elements + i] = sum;
  });
}

class MaxPoolingLayer final : public Layer {
 public:
  MaxPoolingLayer(const Context& context, const MaxPoolingDescription& description)
      : stream_(context.stream), windows_(MakeWindows(description.window)) {}

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    LaunchForPooled(stream_, OutputImages(windows_, pass.batch), PoolLargest, windows_, x[0], y,
                    reinterpret_cast<uint32_t*>(pass.kept));
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] == nullptr) return;
    LaunchForPooled(stream_, InputImages(windows_, pass.batch), SpreadLargest, windows_,
                    reinterpret_cast<const uint32_t*>(pass.kept), dy, dx[0]);
  }

 private:
  const cudaStream_t stream_;
  const Windows windows_;
};

class AveragePoolingLayer final : public Layer {
 public:
  AveragePoolingLayer(const Context& context, const AveragePoolingDescription& description)
      : stream_(context.stream), windows_(MakeWindows(description.window)) {}

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    LaunchForPooled(stream_, OutputImages(windows_, pass.batch), PoolMeans, windows_, x[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] == nullptr) return;
    LaunchForPooled(stream_, InputImages(windows_, pass.batch), SpreadMeans, windows_, dy, dx[0]);
  }

 private:
  const cudaStream_t stream_;
  const Windows windows_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const MaxPoolingDescription& description) {
  return std::make_unique<MaxPoolingLayer>(context, description);
}

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const AveragePoolingDescription& description) {
  return std::make_unique<AveragePoolingLayer>(context, description);
}

}  // namespace millrace::cuda
