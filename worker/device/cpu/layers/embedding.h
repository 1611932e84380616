// Rows of a table, by their numbers.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_EMBEDDING_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_EMBEDDING_H_

#include <cstddef>

#include "worker/device/cpu/layer.h"
#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Takes the ids from the batch. Rows are added up in the order of the ids, in both directions.
class EmbeddingLayer final : public CpuUnaryLayer {
 public:
  EmbeddingLayer(const LayerPlan& plan, const CpuParameters& parameters);

  void Forward(const CpuPass& pass, const float* x, float* y) override;
  void Backward(const CpuPass& pass, const float* x, const float* y, float* dy, float* dx) override;

 private:
  // The ids of one example, and what their rows count.
  struct Ids {
    absl::Span<const int64_t> ids;
    float weight;
  };
  Ids IdsOf(const Tensor& tensor, size_t row) const;
  // Rows of the output in an example.
  size_t rows() const { return pooled_ ? 1 : ids_; }

  const size_t feature_;
  const size_t ids_;  // Of an example, if all have the same number.
  const size_t dimension_;
  const bool ragged_;
  const bool pooled_;
  const bool mean_;
  const bool trained_;
  const int embeddings_;  // As in LayerPlan.
  const CpuParameters parameters_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_EMBEDDING_H_
