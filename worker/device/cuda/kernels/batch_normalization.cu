// ReLU, where it is a part of the layer, costs no memory traffic: it is applied to what is stored,
// and the gradient's kernels compute again what was below 0, from the input that they read anyway.
//
// Statistics are those of parts of the rows, merged: of eight rows in registers the mean and then
// the squares of what is left, which is as exact as two passes over all rows; merging keeps that.
#include <memory>

#include "worker/device/cuda/kernels/column_pairs.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

constexpr size_t kBatchGamma = 0;  // As in LayerPlan (worker/model/layer_plan.h).
constexpr size_t kBatchBeta = 1;
constexpr size_t kBatchMovingMean = 2;
constexpr size_t kBatchMovingVariance = 3;

// Of some values of a channel: how many, their mean, and the sum of the squared differences to it.
struct Moments {
  float count;
  float mean;
  float squares;
};

MILLRACE_DEVICE Moments Merged(const Moments& a, const Moments& b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const float count = a.count + b.count;
  const float difference = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + difference * share,
          a.squares + b.squares + difference * difference * a.count * share};
}

// Rows that one thread has in registers at once.
constexpr int kRowsAtOnce = 8;

// Of kRowsAtOnce values.
MILLRACE_DEVICE Moments MomentsOf(const float* values) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) sum += values[i];
  Moments moments = {kRowsAtOnce, sum / kRowsAtOnce, 0};
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) {
    const float difference = values[i] - moments.mean;
    moments.squares += difference * difference;
  }
  return moments;
}

// Of the rows of this thread.
MILLRACE_DEVICE Moments MomentsOfShare(const ColumnParts& parts, const ColumnShare& share,
                                       const float* x) {
  Moments moments = {};
  int64_t row = share.begin + share.lane;
  for (; row + (kRowsAtOnce - 1) * share.lanes < share.end; row += kRowsAtOnce * share.lanes) {
    float values[kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      values[i] = x[(row + i * share.lanes) * parts.columns + share.column];
    }
    moments = Merged(moments, MomentsOf(values));
  }
  for (; row < share.end; row += share.lanes) {
    moments = Merged(moments, {1, x[row * parts.columns + share.column], 0});
  }
  return moments;
}

// Those of all lanes, for lane 0. All threads of the block take part.
MILLRACE_DEVICE Moments MergeLanes(const Moments& moments, const ColumnShare& share, int width) {
  __shared__ Moments lanes[kThreads];
  lanes[threadIdx.x] = moments;
  for (int half = share.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (share.lane < half) {
      lanes[threadIdx.x] = Merged(lanes[threadIdx.x], lanes[threadIdx.x + half * width]);
    }
  }
  return lanes[threadIdx.x];
}

__global__ void __launch_bounds__(kThreads)
    MomentsOfParts(ColumnParts parts, const float* x, Moments* moments) {
  const ColumnShare share = ShareOfColumns(parts);
  Moments mine = {};
  if (share.column < parts.columns) mine = MomentsOfShare(parts, share, x);
  mine = MergeLanes(mine, share, parts.width);
  if (share.lane == 0 && share.column < parts.columns) {
    moments[blockIdx.y * parts.columns + share.column] = mine;
  }
}

// Writes the means of all channels, then the variances.
__global__ void __launch_bounds__(kThreads)
    MergeMoments(ColumnParts parts, const Moments* moments, float* statistics) {
  const ColumnShare share = ShareOfColumns(parts);
  Moments mine = {};
  if (share.column < parts.columns) mine = CombineParts(parts, share, moments, Merged);
  mine = MergeLanes(mine, share, parts.width);
  if (share.lane != 0 || share.column >= parts.columns) return;
  statistics[share.column] = mine.mean;
  statistics[parts.columns + share.column] = mine.squares / mine.count;
}

// A value for each channel; null: all have `otherwise`.
MILLRACE_DEVICE float OfChannel(const float* values, int64_t channel, float otherwise) {
  return values == nullptr ? otherwise : values[channel];
}

struct ChannelValues {
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* variance;
  float epsilon;
};

MILLRACE_DEVICE float Deviation(const ChannelValues& of, int64_t channel) {
  return sqrtf(of.variance[channel] + of.epsilon);
}

// What the values of one channel come to. The same bits wherever it is computed: so the gradient
// knows which were below 0.
struct Normalizer {
  MILLRACE_DEVICE Normalizer(const ChannelValues& of, int64_t channel)
      : mean(of.mean[channel]),
        scale(OfChannel(of.gamma, channel, 1) / Deviation(of, channel)),
        beta(OfChannel(of.beta, channel, 0)) {}

  MILLRACE_DEVICE float operator()(float x) const { return fmaf(x - mean, scale, beta); }

  float mean;
  float scale;
  float beta;
};

// NaN stays NaN.
template <bool kRelu>
MILLRACE_DEVICE float WithRelu(float value) {
  return kRelu && value < 0 ? 0 : value;
}

// The gradient by what ReLU took, from the gradient by what it gave.
template <bool kRelu>
MILLRACE_DEVICE float BeforeRelu(const Normalizer& normalizer, float x, float dy) {
  if constexpr (kRelu) return normalizer(x) > 0 ? dy : 0;
  return dy;
}

template <bool kRelu>
__global__ void __launch_bounds__(kThreads)
    NormalizeColumns(ColumnParts parts, ChannelValues of, const float* __restrict__ x,
                     float* __restrict__ y) {
  const ColumnShare share = ShareOfColumns(parts);
  if (share.column >= parts.columns) return;
  const Normalizer normalizer(of, share.column);
#pragma unroll 8
  for (int64_t row = share.begin + share.lane; row < share.end; row += share.lanes) {
    const int64_t i = row * parts.columns + share.column;
    y[i] = WithRelu<kRelu>(normalizer(x[i]));
  }
}

// Without statistics of the batch each value goes its own way. dx may be dy. `y` is what ReLU gave;
// null: there is none.
__global__ void __launch_bounds__(kThreads)
    ScaleColumns(ColumnParts parts, ChannelValues of, const float* y, const float* dy, float* dx) {
  const ColumnShare share = ShareOfColumns(parts);
  if (share.column >= parts.columns) return;
  const float factor = OfChannel(of.gamma, share.column, 1) / Deviation(of, share.column);
  for (int64_t row = share.begin + share.lane; row < share.end; row += share.lanes) {
    const int64_t i = row * parts.columns + share.column;
    dx[i] = y == nullptr || y[i] > 0 ? dy[i] * factor : 0;
  }
}

// For the gradients of beta and gamma.
template <bool kRelu>
struct BatchTerm {
  const float* x;
  const float* dy;
  ChannelValues of;
  int64_t columns;

  MILLRACE_DEVICE ColumnPair operator()(int64_t row, int64_t column) const {
    const int64_t i = row * columns + column;
    const float gradient = BeforeRelu<kRelu>(Normalizer(of, column), x[i], dy[i]);
    const float scale = 1 / Deviation(of, column);
    return {gradient, gradient * (x[i] - of.mean[column]) * scale};
  }
};

// With z the normalised value: dx = (dy - mean(dy) - z * mean(dy * z)) * gamma / deviation. dx may
// be dy. With ReLU dy is first that by what it took.
template <bool kRelu>
__global__ void __launch_bounds__(kThreads)
    GradientOfColumns(ColumnParts parts, ChannelValues of, const ColumnPair* sums, const float* x,
                      const float* dy, float* dx) {
  const ColumnShare share = ShareOfColumns(parts);
  if (share.column >= parts.columns) return;
  const float deviation = Deviation(of, share.column);
  const float factor = OfChannel(of.gamma, share.column, 1) / deviation;
  const Normalizer normalizer(of, share.column);
  const auto rows = static_cast<float>(parts.rows);
  const float mean_gradient = sums[share.column].first / rows;
  const float mean_product = sums[share.column].second / rows / deviation;
  const auto gradient_by = [&](float value, float gradient) {
    gradient = BeforeRelu<kRelu>(normalizer, value, gradient);
    return (gradient - mean_gradient - (value - normalizer.mean) * mean_product) * factor;
  };
  const int64_t apart = share.lanes * parts.columns;
  int64_t row = share.begin + share.lane;
  // Loaded before anything is stored, since what is stored may be what the next row loads.
  for (; row + (kRowsAtOnce - 1) * share.lanes < share.end; row += kRowsAtOnce * share.lanes) {
    const int64_t first = row * parts.columns + share.column;
    float values[kRowsAtOnce];
    float gradients[kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      values[i] = x[first + i * apart];
      gradients[i] = dy[first + i * apart];
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      dx[first + i * apart] = gradient_by(values[i], gradients[i]);
    }
  }
  for (; row < share.end; row += share.lanes) {
    const int64_t i = row * parts.columns + share.column;
    dx[i] = gradient_by(x[i], dy[i]);
  }
}

class BatchNormalizationLayer final : public Layer {
 public:
  BatchNormalizationLayer(const Context& context, const BatchNormalizationDescription& description)
      : stream_(context.stream), description_(description) {}

  size_t WorkspaceBytes(size_t batch) const override {
    if (!description_.trained) return 0;
    const ColumnParts parts = PartsOf(batch);
    const auto channels = static_cast<size_t>(description_.channels);
    return std::max(static_cast<size_t>(parts.most_parts) * channels * sizeof(Moments),
                    channels * sizeof(ColumnPair) + SumPairsBytes(parts));
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    if (pass.batch == 0) return;
    const ColumnParts parts = PartsOf(pass.batch);
    const bool of_batch = pass.training && description_.trained;
    if (of_batch) TakeStatistics(pass, parts, x[0]);
    Launch(stream_, parts.blocks(), kThreads,
           description_.relu ? NormalizeColumns<true> : NormalizeColumns<false>, parts,
           ValuesOf(pass, of_batch), x[0], y);
  }

  void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                float* const* dx) override {
    if (description_.trained) {
      return description_.relu ? BackwardOfBatch<true>(pass, x[0], dy, dx[0])
                               : BackwardOfBatch<false>(pass, x[0], dy, dx[0]);
    }
    if (dx[0] == nullptr) return;
    const ColumnParts parts = PartsOf(pass.batch);
    Launch(stream_, parts.blocks(), kThreads, ScaleColumns, parts,
           ValuesOf(pass, /*of_batch=*/false), description_.relu ? y : nullptr, dy, dx[0]);
  }

 private:
  template <bool kRelu>
  void BackwardOfBatch(const Pass& pass, const float* x, const float* dy, float* dx) const {
    const ColumnParts parts = PartsOf(pass.batch);
    const ChannelValues of = ValuesOf(pass, /*of_batch=*/true);
    const ColumnPair* const sums =
        FinishGradients(pass, parts, BatchTerm<kRelu>{x, dy, of, parts.columns});
    if (dx == nullptr) return;
    Launch(stream_, parts.blocks(), kThreads, GradientOfColumns<kRelu>, parts, of, sums, x, dy, dx);
  }

  ColumnParts PartsOf(size_t batch) const {
    return DivideColumns(static_cast<int64_t>(batch) * description_.rows, description_.channels);
  }

  ChannelValues ValuesOf(const Pass& pass, bool of_batch) const {
    return {pass.parameters[kBatchGamma], pass.parameters[kBatchBeta],
            of_batch ? pass.kept : pass.parameters[kBatchMovingMean],
            of_batch ? pass.kept + description_.channels : pass.parameters[kBatchMovingVariance],
            description_.epsilon};
  }

  void TakeStatistics(const Pass& pass, const ColumnParts& parts, const float* x) const {
    Moments* const moments = static_cast<Moments*>(pass.workspace);
    Launch(stream_, parts.blocks(), kThreads, MomentsOfParts, parts, x, moments);
    const ColumnParts narrow = ForAddingUp(parts);
    Launch(stream_, narrow.bands_alone(), kThreads, MergeMoments, narrow, moments, pass.kept);
  }

  // Null: there is no such variable.
  float* BufferOf(const Pass& pass, size_t which) const {
    const int variable = description_.variables[which];
    return variable < 0 ? nullptr : pass.gradients->Buffer(variable);
  }

  // Of all variables, the statistics too. Returns the sums of all channels, again: the gradients
  // are not the layer's any more.
  template <typename Term>
  const ColumnPair* FinishGradients(const Pass& pass, const ColumnParts& parts,
                                    const Term& term) const {
    PairTargets targets;
    targets.first = BufferOf(pass, kBatchBeta);
    targets.second = BufferOf(pass, kBatchGamma);
    targets.both = static_cast<ColumnPair*>(pass.workspace);
    targets.copies = {pass.kept, BufferOf(pass, kBatchMovingMean),
                      BufferOf(pass, kBatchMovingVariance)};
    SumPairs(stream_, parts, term, targets.both + parts.columns, targets);
    for (const size_t which : {kBatchMovingMean, kBatchMovingVariance, kBatchBeta, kBatchGamma}) {
      const int variable = description_.variables[which];
      if (variable >= 0) pass.gradients->Finished(variable);
    }
    return targets.both;
  }

  const cudaStream_t stream_;
  const BatchNormalizationDescription description_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const BatchNormalizationDescription& description) {
  return std::make_unique<BatchNormalizationLayer>(context, description);
}

}  // namespace millrace::cuda
