#include "worker/device/cuda/kernels/column_pairs.h"

namespace millrace::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    AddPairsKernel(ColumnParts parts, const ColumnPair* sums, PairTargets targets) {
  const ColumnShare share = ShareOfColumns(parts);
  ColumnPair sum = {};
  if (share.column < parts.columns) {
    sum = CombineParts(parts, share, sums, [](const ColumnPair& a, const ColumnPair& b) {
      return ColumnPair{a.first + b.first, a.second + b.second};
    });
  }
  sum = SumPairLanes(sum, share, parts.width);
  if (share.lane != 0 || share.column >= parts.columns) return;
  if (targets.first != nullptr) targets.first[share.column] = sum.first;
  if (targets.second != nullptr) targets.second[share.column] = sum.second;
  if (targets.both != nullptr) targets.both[share.column] = sum;
  if (targets.copies.from == nullptr) return;
  targets.copies.first[share.column] = targets.copies.from[share.column];
  targets.copies.second[share.column] = targets.copies.from[parts.columns + share.column];
}

}  // namespace

void AddPairsOfParts(cudaStream_t stream, const ColumnParts& parts, const ColumnPair* sums,
                     const PairTargets& targets) {
  const ColumnParts narrow = ForAddingUp(parts);
  Launch(stream, narrow.bands_alone(), kThreads, AddPairsKernel, narrow, sums, targets);
}

}  // namespace millrace::cuda
