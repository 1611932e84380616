// Pairs of sums over the rows of a matrix, for each column: what the gradients of normalizations
// are made of. A block sums a part of the rows of a band of columns, as in column_sums.cu; then the
// parts' sums are summed.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_PAIRS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_PAIRS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// How blocks of kThreads divide a matrix [rows, columns] among them: block (x, y) takes band x of
// the columns and part y of the rows; thread t the band's column t % width and, of the part's rows,
// those of lane t / width.
struct ColumnParts {
  int64_t rows = 0;
  int64_t columns = 0;
  int width = 1;  // Of a band; a power of two, at most 32.
  int64_t parts = 1;
  int64_t rows_of_part = 1;
  int64_t most_parts = 1;  // Of so many rows or fewer, of which fewer may have more parts.

  int64_t bands() const { return (columns + width - 1) / width; }
  dim3 blocks() const { return dim3(static_cast<unsigned>(bands()), static_cast<unsigned>(parts)); }
  dim3 bands_alone() const { return dim3(static_cast<unsigned>(bands())); }
};

// Depends on the size of the matrix alone.
inline ColumnParts DivideColumns(int64_t rows, int64_t columns) {
  constexpr int64_t kMostParts = 256;
  constexpr int64_t kRowsOfLane = 16;
  ColumnParts parts;
  parts.rows = rows;
  parts.columns = columns;
  while (parts.width < std::min<int64_t>(columns, 32)) parts.width *= 2;
  const int64_t most = std::clamp<int64_t>(kMostPartBlocks / parts.bands(), 1, kMostParts);
  const int64_t least_rows = kRowsOfLane * kThreads / parts.width;
  const int64_t wanted = std::clamp<int64_t>(rows / least_rows, 1, most);
  parts.rows_of_part = std::max<int64_t>((rows + wanted - 1) / wanted, 1);
  parts.most_parts = wanted;
  parts.parts = std::max<int64_t>((rows + parts.rows_of_part - 1) / parts.rows_of_part, 1);
  return parts;
}

// The same for what adds up the parts' sums: narrow bands, so that many lanes share the parts of a
// column, and few loads and sums wait for each other.
inline ColumnParts ForAddingUp(ColumnParts parts) {
  constexpr int kMostWidth = 4;
  parts.width = std::min(parts.width, kMostWidth);
  return parts;
}

// This thread's share.
struct ColumnShare {
  int64_t column;
  int lane;
  int lanes;
  int64_t begin;  // Rows of the part.
  int64_t end;
};

MILLRACE_DEVICE ColumnShare ShareOfColumns(const ColumnParts& parts) {
  const int thread = static_cast<int>(threadIdx.x);
  ColumnShare share;
  share.column = int64_t{blockIdx.x} * parts.width + thread % parts.width;
  share.lane = thread / parts.width;
  share.lanes = static_cast<int>(kThreads) / parts.width;
  share.begin = int64_t{blockIdx.y} * parts.rows_of_part;
  const int64_t end = share.begin + parts.rows_of_part;
  share.end = end < parts.rows ? end : parts.rows;
  return share;
}

// combine() of what the parts have of this thread's column, [parts, columns]: of every lanes-th
// part from its lane's on, in their order, from T{}. Several are loaded at once.
template <typename T, typename Combine>
MILLRACE_DEVICE T CombineParts(const ColumnParts& parts, const ColumnShare& share,
                               const T* of_parts, const Combine& combine) {
  constexpr int kAtOnce = 4;
  T all = {};
  for (int64_t part = share.lane; part < parts.parts; part += kAtOnce * share.lanes) {
    T some[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t each = part + i * share.lanes;
      some[i] = each < parts.parts ? of_parts[each * parts.columns + share.column] : T{};
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) all = combine(all, some[i]);
  }
  return all;
}

struct ColumnPair {
  float first;
  float second;
};

// The sum over the lanes, for lane 0. All threads of the block take part.
MILLRACE_DEVICE ColumnPair SumPairLanes(ColumnPair sum, const ColumnShare& share, int width) {
  __shared__ ColumnPair sums[kThreads];
  sums[threadIdx.x] = sum;
  for (int half = share.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (share.lane < half) {
      sums[threadIdx.x].first += sums[threadIdx.x + half * width].first;
      sums[threadIdx.x].second += sums[threadIdx.x + half * width].second;
    }
  }
  return sums[threadIdx.x];
}

// The parts' sums, [parts, columns]. term(row, column) is a pair.
template <typename Term>
__global__ void __launch_bounds__(kThreads)
    SumPairsOfParts(ColumnParts parts, Term term, ColumnPair* sums) {
  const ColumnShare share = ShareOfColumns(parts);
  ColumnPair sum = {};
  if (share.column < parts.columns) {
    for (int64_t row = share.begin + share.lane; row < share.end; row += share.lanes) {
      const ColumnPair pair = term(row, share.column);
      sum.first += pair.first;
      sum.second += pair.second;
    }
  }
  sum = SumPairLanes(sum, share, parts.width);
  if (share.lane == 0 && share.column < parts.columns) {
    sums[blockIdx.y * parts.columns + share.column] = sum;
  }
}

// Two values for each column, which stand one after the other, and where they are copied to on the
// way: that is cheaper than work of its own.
struct PairCopies {
  const float* from = nullptr;  // [2, columns]; null: none.
  float* first = nullptr;
  float* second = nullptr;
};

// Where the sums of columns go; null: nowhere.
struct PairTargets {
  float* first = nullptr;
  float* second = nullptr;
  ColumnPair* both = nullptr;
  PairCopies copies;
};

// One for all kernels of the folder.
void AddPairsOfParts(cudaStream_t stream, const ColumnParts& parts, const ColumnPair* sums,
                     const PairTargets& targets);

// Enough for fewer rows, too.
inline size_t SumPairsBytes(const ColumnParts& parts) {
  return static_cast<size_t>(parts.most_parts * parts.columns) * sizeof(ColumnPair);
}

// Sums term(row, column) over all rows. Enqueued; `workspace` has SumPairsBytes.
template <typename Term>
void SumPairs(cudaStream_t stream, const ColumnParts& parts, const Term& term, void* workspace,
              const PairTargets& targets) {
  ColumnPair* const sums = static_cast<ColumnPair*>(workspace);
  Launch(stream, parts.blocks(), kThreads, SumPairsOfParts<Term>, parts, term, sums);
  AddPairsOfParts(stream, parts, sums, targets);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_COLUMN_PAIRS_H_
