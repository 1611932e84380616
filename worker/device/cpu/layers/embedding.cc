#include "worker/device/cpu/layers/embedding.h"

#include <algorithm>

#include "worker/model/walk.h"

namespace millrace::worker {

EmbeddingLayer::EmbeddingLayer(const LayerPlan& plan, const CpuParameters& parameters)
    : feature_(plan.sources.front().index),
      ids_(ElementCount(plan.input())),
      dimension_(plan.spec.embedding().output_dim()),
      ragged_(plan.ragged),
      pooled_(plan.spec.embedding().pooling() != Embedding::NONE),
      mean_(plan.spec.embedding().pooling() == Embedding::MEAN),
      trained_(IsTrained(plan)),
      embeddings_(plan.variable(kEmbeddings)),
      parameters_(parameters) {}

EmbeddingLayer::Ids EmbeddingLayer::IdsOf(const Tensor& tensor, size_t row) const {
  const auto all = absl::MakeConstSpan(tensor.ids);
  Ids result = {all.subspan(0, 0), 1};
  if (ragged_) {
    const size_t begin = row == 0 ? 0 : tensor.ends[row - 1];
    result.ids = all.subspan(begin, tensor.ends[row] - begin);
  } else {
    const size_t count = pooled_ ? ids_ : 1;
    result.ids = all.subspan(row * count, count);
  }
  if (mean_) result.weight = static_cast<float>(std::max<size_t>(result.ids.size(), 1));
  return result;
}

void EmbeddingLayer::Forward(const CpuPass& pass, const float* /*x*/, float* y) {
  const Tensor& tensor = (*pass.features)[feature_];
  for (size_t row = 0; row < pass.batch * rows(); ++row, y += dimension_) {
    const Ids ids = IdsOf(tensor, row);
    std::fill(y, y + dimension_, 0.0f);
    for (const int64_t id : ids.ids) {
      const float* const from = parameters_[kEmbeddings] + id * dimension_;
      for (size_t i = 0; i < dimension_; ++i) y[i] += from[i];
    }
    for (size_t i = 0; i < dimension_; ++i) y[i] /= ids.weight;
  }
}

void EmbeddingLayer::Backward(const CpuPass& pass, const float* /*x*/, const float* /*y*/,
                              float* dy, float* /*dx*/) {
  if (!trained_) return;
  const Tensor& tensor = (*pass.features)[feature_];
  const absl::Span<float> gradient = pass.gradients->Buffer(embeddings_);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t row = 0; row < pass.batch * rows(); ++row, dy += dimension_) {
    const Ids ids = IdsOf(tensor, row);
    for (const int64_t id : ids.ids) {
      float* const to = gradient.data() + id * dimension_;
      for (size_t i = 0; i < dimension_; ++i) to[i] += dy[i] / ids.weight;
    }
  }
  pass.gradients->Finished(embeddings_);
}

}  // namespace millrace::worker
