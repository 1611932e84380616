#include <memory>

#include "worker/device/cuda/kernels/column_pairs.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/reduce.h"

namespace millrace::cuda {
namespace {

constexpr size_t kRowGamma = 0;  // As in LayerPlan (worker/model/layer_plan.h).
constexpr size_t kRowBeta = 1;

// Of a row, as kept.
struct RowValues {
  float mean;
  float scale;  // 1 / deviation
};

// A block for each row.
__global__ void __launch_bounds__(kThreads)
    NormalizeRows(size_t rows, size_t columns, float epsilon, const float* gamma, const float* beta,
                  const float* x, float* y, RowValues* kept) {
  __shared__ float shared[kMostWarps];
  const auto count = static_cast<float>(columns);
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    float sum = 0;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) sum += from[i];
    const float mean = ReduceBlock(sum, shared, Sum()) / count;
    float squares = 0;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      squares += (from[i] - mean) * (from[i] - mean);
    }
    const float scale = 1 / sqrtf(ReduceBlock(squares, shared, Sum()) / count + epsilon);
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const float z = (from[i] - mean) * scale;
      to[i] = z * (gamma == nullptr ? 1.0f : gamma[i]) + (beta == nullptr ? 0.0f : beta[i]);
    }
    if (threadIdx.x == 0) kept[row] = {mean, scale};
  }
}

// For the gradients of beta and gamma.
struct RowTerm {
  const float* x;
  const float* dy;
  const RowValues* kept;
  int64_t columns;

  MILLRACE_DEVICE ColumnPair operator()(int64_t row, int64_t column) const {
    const int64_t i = row * columns + column;
    const RowValues values = kept[row];
    return {dy[i], dy[i] * (x[i] - values.mean) * values.scale};
  }
};

// With z the normalised row and g = dy * gamma: dx = (g - mean(g) - z * mean(g * z)) * scale. dx
// may be dy.
__global__ void __launch_bounds__(kThreads)
    GradientOfRows(size_t rows, size_t columns, const float* gamma, const RowValues* kept,
                   const float* x, const float* dy, float* dx) {
  __shared__ float shared[kMostWarps];
  const auto count = static_cast<float>(columns);
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const RowValues values = kept[row];
    const size_t begin = row * columns;
    float sum = 0;
    float product = 0;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const float g = dy[begin + i] * (gamma == nullptr ? 1.0f : gamma[i]);
      sum += g;
      product += g * (x[begin + i] - values.mean) * values.scale;
    }
    const float mean = ReduceBlock(sum, shared, Sum()) / count;
    const float mean_product = ReduceBlock(product, shared, Sum()) / count;
    for (size_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const float g = dy[begin + i] * (gamma == nullptr ? 1.0f : gamma[i]);
      const float z = (x[begin + i] - values.mean) * values.scale;
      dx[begin + i] = (g - mean - z * mean_product) * values.scale;
    }
  }
}

// Keeps mean and 1 / deviation of each row.
class LayerNormalizationLayer final : public Layer {
 public:
  LayerNormalizationLayer(const Context& context, const LayerNormalizationDescription& description)
      : stream_(context.stream), description_(description) {}

  size_t WorkspaceBytes(size_t batch) const override {
    return description_.trained ? SumPairsBytes(PartsOf(batch)) : 0;
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    const size_t rows = pass.batch * static_cast<size_t>(description_.rows);
    const auto columns = static_cast<size_t>(description_.columns);
    LaunchForRows(stream_, rows, columns, NormalizeRows, rows, columns, description_.epsilon,
                  pass.parameters[kRowGamma], pass.parameters[kRowBeta], x[0], y, KeptOf(pass));
  }

  void Backward(const Pass& pass, const float* const* x, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (description_.trained) FinishGradients(pass, x[0], dy);
    if (dx[0] == nullptr) return;
    const size_t rows = pass.batch * static_cast<size_t>(description_.rows);
    const auto columns = static_cast<size_t>(description_.columns);
    LaunchForRows(stream_, rows, columns, GradientOfRows, rows, columns, pass.parameters[kRowGamma],
                  KeptOf(pass), x[0], dy, dx[0]);
  }

 private:
  static RowValues* KeptOf(const Pass& pass) { return reinterpret_cast<RowValues*>(pass.kept); }

  ColumnParts PartsOf(size_t batch) const {
    return DivideColumns(static_cast<int64_t>(batch) * description_.rows, description_.columns);
  }

  void FinishGradients(const Pass& pass, const float* x, const float* dy) const {
    const int beta = description_.variables[kRowBeta];
    const int gamma = description_.variables[kRowGamma];
    PairTargets targets;
    if (beta >= 0) targets.first = pass.gradients->Buffer(beta);
    if (gamma >= 0) targets.second = pass.gradients->Buffer(gamma);
    const RowTerm term = {x, dy, KeptOf(pass), description_.columns};
    SumPairs(stream_, PartsOf(pass.batch), term, pass.workspace, targets);
    for (const int variable : {beta, gamma}) {
      if (variable >= 0) pass.gradients->Finished(variable);
    }
  }

  const cudaStream_t stream_;
  const LayerNormalizationDescription description_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const LayerNormalizationDescription& description) {
  return std::make_unique<LayerNormalizationLayer>(context, description);
}

}  // namespace millrace::cuda
