// A block sums a part of the rows of a band of columns. Its threads stand in lanes: thread t takes
// column t % width of the band and every lanes-th row, so that neighbours read neighbours. Then the
// lanes' sums are added up in a tree. Where there are many rows, the parts' sums are a matrix
// again, whose columns are summed in the same way.
#include <algorithm>

#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/launch.h"

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

__global__ void SumColumnsKernel(const float* __restrict__ matrix, int64_t rows, int64_t columns,
                                 unsigned width, int64_t rows_of_part, float* __restrict__ sums) {
  const int64_t column = int64_t{blockIdx.x} * width + threadIdx.x % width;
  const unsigned lanes = kThreads / width;
  const int64_t begin = blockIdx.y * rows_of_part;
  const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (int64_t row = begin + threadIdx.x / width; row < end; row += lanes) {
      sum += matrix[row * columns + column];
    }
  }
  sum = SumLanes(sum, width);
  if (threadIdx.x < width && column < columns) sums[blockIdx.y * columns + column] = sum;
}

void LaunchSums(cudaStream_t stream, const ColumnBands& bands, int64_t rows, int64_t columns,
                const float* matrix, float* sums) {
  const dim3 blocks(static_cast<unsigned>(bands.count), static_cast<unsigned>(bands.parts));
  Launch(stream, blocks, kThreads, SumColumnsKernel, matrix, rows, columns,
         static_cast<unsigned>(bands.width), bands.rows_of_part, sums);
}

}  // namespace

size_t SumColumnsWorkspaceBytes(int64_t rows, int64_t columns) {
  const int64_t parts = BandsOf(rows, columns).parts;
  return parts == 1 ? 0 : static_cast<size_t>(parts * columns) * sizeof(float);
}

void SumColumns(cudaStream_t stream, int64_t rows, int64_t columns, const float* matrix,
                void* workspace, float* sums) {
  const ColumnBands bands = BandsOf(rows, columns);
  if (bands.parts == 1) return LaunchSums(stream, bands, rows, columns, matrix, sums);
  float* const parts = static_cast<float*>(workspace);
  LaunchSums(stream, bands, rows, columns, matrix, parts);
  ColumnBands whole = bands;
  whole.parts = 1;
  whole.rows_of_part = bands.parts;
  LaunchSums(stream, whole, bands.parts, columns, parts, sums);
}

}  // namespace millrace::cuda
