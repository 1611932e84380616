#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/reduce.h"
#include "worker/device/cuda/kernels/strides.h"

namespace millrace::cuda {
namespace {

struct IdRange {
  uint64_t begin;
  uint64_t end;
};

// Of one row of the output.
MILLRACE_DEVICE IdRange IdsOf(const EmbeddingDescription& embedding, const uint64_t* ends,
                              size_t row) {
  if (embedding.ragged) return {row == 0 ? 0 : ends[row - 1], ends[row]};
  const auto ids = static_cast<uint64_t>(embedding.ids);
  return {row * ids, row * ids + ids};
}

// What the rows of the table are divided by for one of the output.
MILLRACE_DEVICE float WeightOf(const EmbeddingDescription& embedding, const uint64_t* ends,
                               size_t row) {
  if (!embedding.mean) return 1;
  const IdRange ids = IdsOf(embedding, ends, row);
  return ids.end - ids.begin > 1 ? static_cast<float>(ids.end - ids.begin) : 1;
}

// Adds up in the order of the ids.
__global__ void EmbeddingKernel(EmbeddingDescription embedding, Ids ids, size_t count,
                                const float* table, float* y) {
  const auto dimension = static_cast<uint32_t>(embedding.dimension);
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const size_t row = Quotient(i, dimension);
    const size_t column = i - row * dimension;
    const IdRange range = IdsOf(embedding, ids.ends, row);
    float sum = 0;
    for (uint64_t k = range.begin; k < range.end; ++k) {
      sum += table[static_cast<size_t>(ids.ids[k]) * dimension + column];
    }
    y[i] = sum / WeightOf(embedding, ids.ends, row);
  }
}

// Of one row of the table: the positions in sorted_ids that have it.
struct Run {
  uint64_t begin;
  uint64_t end;
};

// The run that begins at `begin`; empty: none does.
MILLRACE_DEVICE Run RunAt(const Ids& ids, uint64_t begin, uint64_t count) {
  if (begin >= count) return {begin, begin};
  const int64_t id = ids.sorted_ids[begin];
  if (begin > 0 && ids.sorted_ids[begin - 1] == id) return {begin, begin};
  uint64_t end = begin + 1;  // All before it have this id,
  uint64_t after = count;    // none from here on.
  while (end < after) {
    const uint64_t middle = end + (after - end) / 2;
    if (ids.sorted_ids[middle] == id) {
      end = middle + 1;
    } else {
      after = middle;
    }
  }
  return {begin, end};
}

// What one column of the table's gradient has of every step-th position of a run.
MILLRACE_DEVICE float SumOfRun(const EmbeddingDescription& embedding, const Ids& ids, Run run,
                               unsigned step, const float* dy, size_t column) {
  float sum = 0;
  for (uint64_t k = run.begin; k < run.end; k += step) {
    const auto row = static_cast<size_t>(ids.sorted_rows[k]);
    const float weight = WeightOf(embedding, ids.ends, row);
    sum += dy[row * static_cast<size_t>(embedding.dimension) + column] / weight;
  }
  return sum;
}

constexpr unsigned kRunsOfBlock = kThreads / kWarp;
constexpr uint64_t kLongRun = 32;

// A block looks at kRunsOfBlock positions at a time. Each warp has one: if a short run begins
// there, the warp adds it up, in order. A long one is added up by all warps together: each takes
// every kRunsOfBlock-th position, then their sums are added in the order of the warps. So the order
// depends on the run alone.
__global__ void EmbeddingGradientKernel(EmbeddingDescription embedding, Ids ids, const float* dy,
                                        float* gradient) {
  __shared__ Run runs[kRunsOfBlock];
  __shared__ float sums[kRunsOfBlock][kWarp];
  const uint64_t count = *ids.count;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  const auto dimension = static_cast<size_t>(embedding.dimension);
  for (uint64_t base = uint64_t{blockIdx.x} * kRunsOfBlock; base < count;
       base += uint64_t{gridDim.x} * kRunsOfBlock) {
    const Run own = RunAt(ids, base + warp, count);
    if (lane == 0) runs[warp] = own;
    if (own.begin < own.end && own.end - own.begin <= kLongRun) {
      float* const to = gradient + static_cast<size_t>(ids.sorted_ids[own.begin]) * dimension;
      for (size_t column = lane; column < dimension; column += kWarp) {
        to[column] = SumOfRun(embedding, ids, own, 1, dy, column);
      }
    }
    __syncthreads();
    for (unsigned i = 0; i < kRunsOfBlock; ++i) {
      const Run run = runs[i];
      if (run.end - run.begin <= kLongRun) continue;
      float* const to = gradient + static_cast<size_t>(ids.sorted_ids[run.begin]) * dimension;
      for (size_t first = 0; first < dimension; first += kWarp) {
        const size_t column = first + lane;
        sums[warp][lane] =
            column < dimension
                ? SumOfRun(embedding, ids, {run.begin + warp, run.end}, kRunsOfBlock, dy, column)
                : 0;
        __syncthreads();
        if (warp == 0 && column < dimension) {
          float sum = sums[0][lane];
          for (unsigned k = 1; k < kRunsOfBlock; ++k) sum += sums[k][lane];
          to[column] = sum;
        }
        __syncthreads();
      }
    }
    __syncthreads();  // All have read `runs`.
  }
}

// The row of the output for which id `k` counts, of `rows`.
MILLRACE_DEVICE size_t RowOfId(const EmbeddingDescription& embedding, const uint64_t* ends,
                               size_t rows, uint64_t k) {
  if (!embedding.ragged) return k / static_cast<uint64_t>(embedding.ids);
  size_t row = 0;  // All before it end at k or earlier.
  while (row < rows) {
    const size_t middle = row + (rows - row) / 2;
    if (ends[middle] <= k) {
      row = middle + 1;
    } else {
      rows = middle;
    }
  }
  return row;
}

// The same sums in any order. A warp takes one id after the other.
__global__ void EmbeddingAnyOrderKernel(EmbeddingDescription embedding, Ids ids, size_t rows,
                                        const float* dy, float* gradient) {
  const uint64_t count = *ids.count;
  const auto dimension = static_cast<size_t>(embedding.dimension);
  for (uint64_t k = FirstElement() / kWarp; k < count; k += ElementStride() / kWarp) {
    const size_t row = RowOfId(embedding, ids.ends, rows, k);
    const float weight = WeightOf(embedding, ids.ends, row);
    float* const to = gradient + static_cast<size_t>(ids.ids[k]) * dimension;
    for (size_t column = threadIdx.x % kWarp; column < dimension; column += kWarp) {
      atomicAdd(to + column, dy[row * dimension + column] / weight);
    }
  }
}

class EmbeddingLayer final : public Layer {
 public:
  EmbeddingLayer(const Context& context, const EmbeddingDescription& description)
      : stream_(context.stream), deterministic_(context.deterministic), description_(description) {}

  void Forward(const Pass& pass, const float* const* /*x*/, float* y) override {
    const size_t count =
        pass.batch * static_cast<size_t>(description_.rows * description_.dimension);
    LaunchFor(stream_, count, EmbeddingKernel, description_, pass.ids[description_.feature], count,
              pass.parameters[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* /*dx*/) override {
    if (!description_.trained) return;
    const Ids& ids = pass.ids[description_.feature];
    float* const gradient = pass.gradients->Buffer(description_.variable);
    const size_t bytes =
        static_cast<size_t>(description_.table_rows * description_.dimension) * sizeof(float);
    Check(cudaMemsetAsync(gradient, 0, bytes, stream_), "cudaMemsetAsync");
    if (deterministic_) {
      LaunchFor(stream_, ids.most * kWarp, EmbeddingGradientKernel, description_, ids, dy,
                gradient);
    } else {
      LaunchFor(stream_, ids.most * kWarp, EmbeddingAnyOrderKernel, description_, ids,
                pass.batch * static_cast<size_t>(description_.rows), dy, gradient);
    }
    pass.gradients->Finished(description_.variable);
  }

 private:
  const cudaStream_t stream_;
  const bool deterministic_;
  const EmbeddingDescription description_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context, const EmbeddingDescription& description) {
  return std::make_unique<EmbeddingLayer>(context, description);
}

}  // namespace millrace::cuda
