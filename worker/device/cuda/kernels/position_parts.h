// Kernel gradients as sums over all positions of a batch, which are cut into parts.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_POSITION_PARTS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_POSITION_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/convolution.h"

namespace millrace::cuda {

struct PositionParts {
  int64_t count = 1;
  int64_t length = 1;  // Positions of each but the last one, which may have fewer.
  int64_t most = 1;    // Parts of so many positions or fewer, of which fewer may have more parts.
};

// As many parts as fill a GPU where each takes so many blocks, with at least `least` positions in
// each; with a quarter of that where the GPU would hardly have two blocks for each multiprocessor
// (132 of an H100). None has more than 2^29. REQUIRES: 4 <= least <= 2^29
inline PositionParts CutPositions(int64_t positions, int64_t blocks, int64_t least) {
  constexpr int64_t kEnoughBlocks = 1024;
  constexpr int64_t kFewestBlocks = 264;
  constexpr int64_t kMostPositions = int64_t{1} << 29;
  const int64_t most = std::max<int64_t>(kEnoughBlocks / blocks, 1);
  if (positions == 0) return {};
  const int64_t shorter = std::min(positions / (least / 4), kFewestBlocks / blocks);
  const int64_t wanted =
      std::max(std::clamp<int64_t>(std::max(positions / least, shorter), 1, most),
               (positions + kMostPositions - 1) / kMostPositions);
  PositionParts parts;
  parts.length = (positions + wanted - 1) / wanted;
  parts.count = (positions + parts.length - 1) / parts.length;
  parts.most = wanted;
  return parts;
}

// The parts' sums stand one after the other in the workspace, and behind them what adding them up
// takes; one alone is the gradient. Enough for fewer positions, too.
inline size_t PartialSumsBytes(const PositionParts& parts, int64_t elements) {
  if (parts.most == 1) return 0;
  return static_cast<size_t>(parts.most * elements) * sizeof(float) +
         SumColumnsWorkspaceBytes(parts.most, elements);
}

inline float* PartialSums(const PositionParts& parts, const KernelGradient& gradient) {
  return parts.count == 1 ? gradient.kernel : static_cast<float*>(gradient.workspace);
}

inline void AddPartialSums(cudaStream_t stream, const PositionParts& parts, int64_t elements,
                           const KernelGradient& gradient) {
  if (parts.count == 1) return;
  float* const sums = static_cast<float*>(gradient.workspace);
  SumColumns(stream, parts.count, elements, sums, sums + parts.count * elements, gradient.kernel);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_POSITION_PARTS_H_
