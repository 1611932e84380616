// Convolutions in which each channel is a group: a thread for each element of the result, and
// threads side by side have channels side by side.
#include "worker/device/cuda/kernels/convolution.h"
#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/position_parts.h"

namespace millrace::cuda {
namespace {

struct DepthwiseWork {
  Windows windows;
  int multiplier = 1;  // Filters of each channel.
  Divisor by_multiplier;
  Divisor row_stride;
  Divisor column_stride;
  // Of what the threads go through: elements of a row of an image, and channels.
  Divisor row;
  Divisor channels;
};

DepthwiseWork DepthwiseWorkOf(const Windows& windows, int columns, int channels) {
  DepthwiseWork work;
  work.windows = windows;
  work.multiplier = windows.filters / windows.channels;
  work.by_multiplier = Divisor(static_cast<uint32_t>(work.multiplier));
  work.row_stride = Divisor(static_cast<uint32_t>(windows.rows.stride));
  work.column_stride = Divisor(static_cast<uint32_t>(windows.columns.stride));
  work.row = Divisor(static_cast<uint32_t>(columns * channels));
  work.channels = Divisor(static_cast<uint32_t>(channels));
  return work;
}

// Of an element of an image.
struct ElementPlace {
  int row;
  int column;
  int channel;
};

MILLRACE_DEVICE ElementPlace ElementPlaceOf(const DepthwiseWork& work, uint32_t element) {
  const uint32_t row = work.row.Quotient(element);
  const uint32_t rest = element - row * work.row.divisor();
  const uint32_t column = work.channels.Quotient(rest);
  return {static_cast<int>(row), static_cast<int>(column),
          static_cast<int>(rest - column * work.channels.divisor())};
}

__global__ void DepthwiseForward(DepthwiseWork work, ConvolutionForward forward,
                                 uint32_t elements) {
  const Windows& windows = work.windows;
  const WindowAxis& rows = windows.rows;
  const WindowAxis& columns = windows.columns;
  for (int64_t image = blockIdx.y; image < forward.batch; image += gridDim.y) {
    const float* const x = forward.x + image * windows.input_elements();
    float* const y = forward.y + image * elements;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < elements;
         i += gridDim.x * blockDim.x) {
      const ElementPlace place = ElementPlaceOf(work, i);
      const int channel = static_cast<int>(work.by_multiplier.Quotient(place.channel));
      float sum = 0;
      for (int tap_row = 0; tap_row < rows.size; ++tap_row) {
        const int row = place.row * rows.stride - rows.pad_before + tap_row * rows.dilation;
        if (row < 0 || row >= rows.input) continue;
        for (int tap_column = 0; tap_column < columns.size; ++tap_column) {
          const int column =
              place.column * columns.stride - columns.pad_before + tap_column * columns.dilation;
          if (column < 0 || column >= columns.input) continue;
          const int64_t tap = int64_t{tap_row} * columns.size + tap_column;
          sum += x[(row * columns.input + column) * windows.channels + channel] *
                 forward.kernel[tap * windows.filters + place.channel];
        }
      }
      if (forward.bias != nullptr) sum += forward.bias[place.channel];
      y[i] = forward.relu && sum < 0 ? 0.0f : sum;
    }
  }
}

// The window that sees `position` with a tap, below 0: none.
MILLRACE_DEVICE int WindowAt(const WindowAxis& axis, const Divisor& stride, int position, int tap) {
  const int begin = position + axis.pad_before - tap * axis.dilation;
  if (begin < 0) return -1;
  const int window = static_cast<int>(stride.Quotient(begin));
  return window * axis.stride == begin && window < axis.output ? window : -1;
}

__global__ void DepthwiseBack(DepthwiseWork work, InputGradient gradient, uint32_t elements) {
  const Windows& windows = work.windows;
  const int64_t output_elements = windows.output_positions() * windows.filters;
  for (int64_t image = blockIdx.y; image < gradient.batch; image += gridDim.y) {
    const float* const dy = gradient.dy + image * output_elements;
    float* const dx = gradient.dx + image * elements;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < elements;
         i += gridDim.x * blockDim.x) {
      const ElementPlace place = ElementPlaceOf(work, i);
      const int first_filter = place.channel * work.multiplier;
      float sum = 0;
      for (int tap_row = 0; tap_row < windows.rows.size; ++tap_row) {
        const int row = WindowAt(windows.rows, work.row_stride, place.row, tap_row);
        if (row < 0) continue;
        for (int tap_column = 0; tap_column < windows.columns.size; ++tap_column) {
          const int column =
              WindowAt(windows.columns, work.column_stride, place.column, tap_column);
          if (column < 0) continue;
          const float* const from =
              dy + (row * windows.columns.output + column) * windows.filters + first_filter;
          const float* const kernel =
              gradient.kernel +
              (int64_t{tap_row} * windows.columns.size + tap_column) * windows.filters +
              first_filter;
          for (int k = 0; k < work.multiplier; ++k) sum += from[k] * kernel[k];
        }
      }
      dx[i] = sum;
    }
  }
}

// Images side by side in blocks' second direction.
dim3 BlocksForImages(int64_t batch, uint32_t elements) {
  constexpr int64_t kMostImages = 4096;
  return dim3(BlocksFor(elements), static_cast<unsigned>(std::min(batch, kMostImages)));
}

// Threads of a block for the kernel's gradient: filters, and lanes of positions.
constexpr int kLaneFilters = 32;
constexpr int kPositionLanes = 8;
constexpr int64_t kPositionsOfDepthwisePart = 256;

struct DepthwiseWeightsWork {
  Windows windows;
  int64_t positions = 0;  // Of all images.
  PositionParts parts;
  Divisor by_multiplier;
  Divisor area;  // Positions of an image, and of a row of it.
  Divisor width;
  const float* x = nullptr;
  const float* dy = nullptr;
  float* sums = nullptr;  // A kernel for each part.
};

// Of the positions of this thread's lane in a part, for one tap and filter. Positions are counted
// from the image at `x` and `dy`.
MILLRACE_DEVICE float SumOfLane(const DepthwiseWeightsWork& work, const float* x, const float* dy,
                                int tap_row, int tap_column, uint32_t first, uint32_t end) {
  const WindowAxis& rows = work.windows.rows;
  const WindowAxis& columns = work.windows.columns;
  float sum = 0;
  for (uint32_t position = first + threadIdx.y; position < end; position += kPositionLanes) {
    const uint32_t image = work.area.Quotient(position);
    const uint32_t rest = position - image * work.area.divisor();
    const uint32_t window = work.width.Quotient(rest);
    const int row =
        static_cast<int>(window) * rows.stride - rows.pad_before + tap_row * rows.dilation;
    const int column = static_cast<int>(rest - window * work.width.divisor()) * columns.stride -
                       columns.pad_before + tap_column * columns.dilation;
    if (row < 0 || row >= rows.input || column < 0 || column >= columns.input) continue;
    const int64_t pixel = (int64_t{image} * rows.input + row) * columns.input + column;
    sum += x[pixel * work.windows.channels] * dy[int64_t{position} * work.windows.filters];
  }
  return sum;
}

// A block for each run of filters, tap and part.
__global__ void DepthwiseWeights(DepthwiseWeightsWork work, int filter_runs) {
  __shared__ float lanes[kPositionLanes][kLaneFilters];
  const Windows& windows = work.windows;
  int64_t index = blockIdx.x;
  const int filter =
      static_cast<int>(index % filter_runs) * kLaneFilters + static_cast<int>(threadIdx.x);
  index /= filter_runs;
  const int64_t tap = index % windows.taps();
  const int64_t part = index / windows.taps();
  const int64_t begin = part * work.parts.length;
  const int64_t left = work.positions - begin;
  const int64_t count = left < work.parts.length ? left : work.parts.length;
  const int64_t image = begin / work.area.divisor();
  const auto first = static_cast<uint32_t>(begin - image * work.area.divisor());
  float sum = 0;
  if (filter < windows.filters) {
    const int channel = static_cast<int>(work.by_multiplier.Quotient(filter));
    sum = SumOfLane(work, work.x + image * windows.input_elements() + channel,
                    work.dy + image * windows.output_positions() * windows.filters + filter,
                    static_cast<int>(tap / windows.columns.size),
                    static_cast<int>(tap % windows.columns.size), first,
                    first + static_cast<uint32_t>(count));
  }
  lanes[threadIdx.y][threadIdx.x] = sum;
  for (unsigned half = kPositionLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      lanes[threadIdx.y][threadIdx.x] += lanes[threadIdx.y + half][threadIdx.x];
  }
  if (threadIdx.y == 0 && filter < windows.filters) {
    work.sums[(part * windows.taps() + tap) * windows.filters + filter] = lanes[0][threadIdx.x];
  }
}

int64_t FilterRuns(const Windows& windows) {
  return (windows.filters + kLaneFilters - 1) / kLaneFilters;
}

PositionParts DepthwisePartsOf(const Windows& windows, int64_t batch) {
  return CutPositions(batch * windows.output_positions(), FilterRuns(windows) * windows.taps(),
                      kPositionsOfDepthwisePart);
}

}  // namespace

void ConvolveDepthwise(cudaStream_t stream, const Windows& windows,
                       const ConvolutionForward& forward) {
  if (forward.batch == 0) return;
  const auto elements = static_cast<uint32_t>(windows.output_positions() * windows.filters);
  Launch(stream, BlocksForImages(forward.batch, elements), kThreads, DepthwiseForward,
         DepthwiseWorkOf(windows, windows.columns.output, windows.filters), forward, elements);
}

void ConvolveDepthwiseBack(cudaStream_t stream, const Windows& windows,
                           const InputGradient& gradient) {
  if (gradient.batch == 0) return;
  const auto elements = static_cast<uint32_t>(windows.input_elements());
  Launch(stream, BlocksForImages(gradient.batch, elements), kThreads, DepthwiseBack,
         DepthwiseWorkOf(windows, windows.columns.input, windows.channels), gradient, elements);
}

size_t DepthwiseKernelGradientBytes(const Windows& windows, int64_t batch) {
  return PartialSumsBytes(DepthwisePartsOf(windows, batch), windows.taps() * windows.filters);
}

void SumDepthwiseKernelGradient(cudaStream_t stream, const Windows& windows,
                                const KernelGradient& gradient) {
  DepthwiseWeightsWork work;
  work.windows = windows;
  work.positions = gradient.batch * windows.output_positions();
  work.parts = DepthwisePartsOf(windows, gradient.batch);
  work.by_multiplier = Divisor(static_cast<uint32_t>(windows.filters / windows.channels));
  work.area = Divisor(static_cast<uint32_t>(windows.output_positions()));
  work.width = Divisor(static_cast<uint32_t>(windows.columns.output));
  work.x = gradient.x;
  work.dy = gradient.dy;
  work.sums = PartialSums(work.parts, gradient);
  const int64_t blocks = FilterRuns(windows) * windows.taps() * work.parts.count;
  Launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(kLaneFilters, kPositionLanes),
         DepthwiseWeights, work, static_cast<int>(FilterRuns(windows)));
  AddPartialSums(stream, work.parts, windows.taps() * windows.filters, gradient);
}

}  // namespace millrace::cuda
