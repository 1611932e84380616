#include "worker/device/cuda/kernels/column_pairs.h"

namespace millrace::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    AddPairsKernel(ColumnParts parts, const ColumnPair* sums, PairTargets targets) {
  const ColumnShare share = ShareOfColumns(parts);
  ColumnPair sum = {};
  if (share.column < parts.columns) {
    for (int64_t part = share.lane; part < parts.parts; part += kPartsAtOnce * share.lanes) {
      ColumnPair pairs[kPartsAtOnce];
#pragma unroll
      for (int i = 0; i < kPartsAtOnce; ++i) {
        const int64_t each = part + i * share.lanes;
        pairs[i] = each < parts.parts ? sums[each * parts.columns + share.column] : ColumnPair{};
      }
#pragma unroll
      for (int i = 0; i < kPartsAtOnce; ++i) {
        sum.first += pairs[i].first;
        sum.second += pairs[i].second;
      }
    }
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
