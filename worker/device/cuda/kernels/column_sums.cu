// A block sums a part of the rows of a band of columns. Its threads stand in lanes: thread t takes
// column t % width of the band and every lanes-th row, so that neighbours read neighbours. Then the
// lanes' sums are added up in a tree. Where there are many rows, the parts' sums are a matrix
// again, whose columns are summed in the same way.
//
// What is summed is a source's: it loads what a number is made of, and gives the number when it is
// added, with whatever it stores of it. Values are of float or of bfloat16.
#include <cuda_bf16.h>

#include <algorithm>

#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/function.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/narrow.h"

namespace millrace::cuda {
namespace {

// Columns of a band at most: as many neighbours as are read at once.
constexpr int64_t kMostWidth = 32;
// Rows that each lane of a part has about,
constexpr int64_t kRowsOfLane = 16;
// and should have before it is worth while to divide them: a second launch takes as long as some.
constexpr int64_t kRowsOfLaneAlone = 64;
// More parts only make the second sum longer.
constexpr int64_t kMostParts = 512;

struct ColumnBands {
  int64_t width = 1;  // Columns of each; a power of two.
  int64_t count = 1;
  int64_t parts = 1;  // Of the rows.
  int64_t rows_of_part = 0;
};

int64_t RoundUpDivide(int64_t dividend, int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

ColumnBands BandsOf(int64_t rows, int64_t columns) {
  ColumnBands bands;
  while (bands.width < std::min(columns, kMostWidth)) bands.width *= 2;
  bands.count = RoundUpDivide(columns, bands.width);
  const int64_t lanes = kThreads / bands.width;
  const int64_t most = std::clamp<int64_t>(kMostPartBlocks / bands.count, 1, kMostParts);
  if (rows > kRowsOfLaneAlone * lanes) {
    bands.parts = std::clamp<int64_t>(RoundUpDivide(rows, kRowsOfLane * lanes), 1, most);
  }
  bands.rows_of_part = RoundUpDivide(rows, bands.parts);
  return bands;
}

// Adds up, for the threads whose number is below width, the values of all that have the same
// remainder by it. All threads of the block take part.
__device__ float SumLanes(float value, unsigned width) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half >= width; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[threadIdx.x];
}

template <typename Value>
struct MatrixSource {
  using Loaded = Value;

  MILLRACE_DEVICE Value Load(int64_t i) const { return matrix[i]; }
  MILLRACE_DEVICE float Take(Value value, int64_t /*i*/) const { return ToFloat(value); }

  const Value* matrix;
};

// An inner gradient, which is stored: of ReLU, or of what has none. `to` may be dy.
template <bool kRelu, typename Value, typename Stored>
struct GradientSource {
  struct Loaded {
    Value y;
    Value dy;
  };

  MILLRACE_DEVICE Loaded Load(int64_t i) const { return {kRelu ? y[i] : Value{}, dy[i]}; }
  MILLRACE_DEVICE float Take(const Loaded& loaded, int64_t i) const {
    const float dy_value = ToFloat(loaded.dy);
    const float gradient = kRelu ? ReluGradient()(ToFloat(loaded.y), dy_value) : dy_value;
    Store(gradient, to + i);
    return gradient;
  }

  const Value* y;
  const Value* dy;
  Stored* to;
};

// Of one column: of the rows from `row` on, each `lanes` behind the one before, to before `end`.
template <typename Source>
MILLRACE_DEVICE float SumOfRows(const Source& source, int64_t columns, int64_t column, int64_t row,
                                int64_t end, unsigned lanes) {
  // Loaded before anything is stored, since what is stored may be what the next row loads.
  constexpr int kAtOnce = 8;
  float sum = 0;
  for (; row + (kAtOnce - 1) * int64_t{lanes} < end; row += kAtOnce * int64_t{lanes}) {
    const int64_t first = row * columns + column;
    typename Source::Loaded loaded[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) loaded[i] = source.Load(first + i * lanes * columns);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      sum += source.Take(loaded[i], first + i * lanes * columns);
    }
  }
  for (; row < end; row += lanes) {
    const int64_t i = row * columns + column;
    sum += source.Take(source.Load(i), i);
  }
  return sum;
}

template <typename Source>
__global__ void SumColumnsKernel(Source source, int64_t rows, int64_t columns, unsigned width,
                                 int64_t rows_of_part, float* __restrict__ sums) {
  const int64_t column = int64_t{blockIdx.x} * width + threadIdx.x % width;
  const unsigned lanes = kThreads / width;
  const int64_t begin = blockIdx.y * rows_of_part;
  const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
  float sum = 0;
  if (column < columns) {
    sum = SumOfRows(source, columns, column, begin + threadIdx.x / width, end, lanes);
  }
  sum = SumLanes(sum, width);
  if (threadIdx.x < width && column < columns) sums[blockIdx.y * columns + column] = sum;
}

template <typename Source>
void LaunchSums(cudaStream_t stream, const ColumnBands& bands, int64_t rows, int64_t columns,
                const Source& source, float* sums) {
  const dim3 blocks(static_cast<unsigned>(bands.count), static_cast<unsigned>(bands.parts));
  Launch(stream, blocks, kThreads, SumColumnsKernel<Source>, source, rows, columns,
         static_cast<unsigned>(bands.width), bands.rows_of_part, sums);
}

template <typename Source>
void SumColumnsOf(cudaStream_t stream, int64_t rows, int64_t columns, const Source& source,
                  void* workspace, float* sums) {
  const ColumnBands bands = BandsOf(rows, columns);
  if (bands.parts == 1) return LaunchSums(stream, bands, rows, columns, source, sums);
  float* const parts = static_cast<float*>(workspace);
  LaunchSums(stream, bands, rows, columns, source, parts);
  ColumnBands whole = bands;
  whole.parts = 1;
  whole.rows_of_part = bands.parts;
  LaunchSums(stream, whole, bands.parts, columns, MatrixSource<float>{parts}, sums);
}

}  // namespace

size_t SumColumnsWorkspaceBytes(int64_t rows, int64_t columns) {
  const int64_t parts = BandsOf(rows, columns).parts;
  return parts == 1 ? 0 : static_cast<size_t>(parts * columns) * sizeof(float);
}

void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const float* matrix,
                void* workspace, float* sums) {
  SumColumnsOf(stream, rows, columns, MatrixSource<float>{matrix}, workspace, sums);
}

void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const InnerGradient& gradient,
                void* workspace, float* sums) {
  const auto sum = [&](const auto& source) {
    SumColumnsOf(stream, rows, columns, source, workspace, sums);
  };
  const float* const y = gradient.y;
  float* const dy = gradient.dy;
  auto* const rounded = static_cast<__nv_bfloat16*>(gradient.rounded);
  if (gradient.function == Function::kRelu) {
    return rounded == nullptr ? sum(GradientSource<true, float, float>{y, dy, dy})
                              : sum(GradientSource<true, float, __nv_bfloat16>{y, dy, rounded});
  }
  ApplyGradient(stream, gradient.function, rows, columns, y, dy, dy);
  rounded == nullptr ? sum(MatrixSource<float>{dy})
                     : sum(GradientSource<false, float, __nv_bfloat16>{y, dy, rounded});
}

void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns,
                const NarrowInnerGradient& gradient, void* workspace, float* sums) {
  auto* const dy = static_cast<__nv_bfloat16*>(gradient.dy);
  if (gradient.function != Function::kRelu) {
    return SumColumnsOf(stream, rows, columns, MatrixSource<__nv_bfloat16>{dy}, workspace, sums);
  }
  const auto* const y = static_cast<const __nv_bfloat16*>(gradient.y);
  SumColumnsOf(stream, rows, columns, GradientSource<true, __nv_bfloat16, __nv_bfloat16>{y, dy, dy},
               workspace, sums);
}

}  // namespace millrace::cuda
