#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {
namespace {

absl::Status CheckEmbedding(const Embedding& embedding, const LayerPlan& layer) {
  if (embedding.input_dim() == 0) return Invalid("input_dim is 0; it must be at least 1");
  if (embedding.output_dim() == 0) return Invalid("output_dim is 0; it must be at least 1");
  if (!Embedding::Pooling_IsValid(embedding.pooling())) {
    return Invalid("pooling is ", static_cast<int>(embedding.pooling()), "; use NONE, SUM or MEAN");
  }
  if (!layer.takes_ids) {
    return Invalid("embedding takes a feature of ids, '", layer.spec.inputs(0), "' is of numbers");
  }
  if (!layer.ragged || embedding.pooling() != Embedding::NONE) return absl::OkStatus();
  return Invalid("pooling is NONE, and examples have any number of ids in '", layer.spec.inputs(0),
                 "'; use SUM or MEAN");
}

}  // namespace

absl::Status PlanEmbedding(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Embedding* embedding = layer->spec.mutable_embedding();
  MILLRACE_RETURN_IF_ERROR(CheckEmbedding(*embedding, *layer));
  if (embedding->embeddings_initializer() == INITIALIZER_UNSPECIFIED) {
    embedding->set_embeddings_initializer(UNIFORM);
  }
  if (embedding->pooling() == Embedding::NONE) layer->output = layer->input();
  layer->output.push_back(embedding->output_dim());
  const Shape table = {embedding->input_dim(), embedding->output_dim()};
  layer->regularizers = {embedding->embeddings_regularizer()};
  return AddVariable("embeddings", table, embedding->embeddings_initializer(), FansOfKernel(table),
                     layer, variables);
}

}  // namespace millrace::worker
