#include "worker/model/batch_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/model/batch_metrics.h"
#include "worker/model/invalid.h"

namespace millrace::worker {
namespace {

size_t ElementsOf(const TensorSpec& feature, const Tensor& tensor) {
  switch (feature.type) {
    case ElementType::kFloat:
      return tensor.floats.size();
    case ElementType::kByte:
      return tensor.bytes.size();
    case ElementType::kId:
      break;
  }
  return feature.ragged ? tensor.ends.size() : tensor.ids.size();
}

// INVALID_ARGUMENT: an id that an embedding has no row for.
absl::Status CheckIds(const ModelPlan& plan, const Batch& batch) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    if (!layer.spec.has_embedding()) continue;
    const int64_t limit = layer.spec.embedding().input_dim();
    for (const int64_t id : batch.features[layer.sources.front().index].ids) {
      if (id >= 0 && id < limit) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("a batch has the id ", id, " in the feature '", layer.spec.inputs(0), "'; ",
                       LayerPath(i, layer.spec.name()), " takes 0 to ", limit - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatch(const ModelPlan& plan, const Batch& batch, size_t largest) {
  CHECK_GE(batch.size, 1u);
  CHECK_LE(batch.size, largest);
  CHECK_EQ(batch.features.size(), plan.features.size());
  for (size_t i = 0; i < plan.features.size(); ++i) {
    CHECK_EQ(ElementsOf(plan.features[i], batch.features[i]),
             batch.size * ElementCount(plan.features[i].shape));
  }
  MILLRACE_RETURN_IF_ERROR(CheckIds(plan, batch));
  return CheckLabels(plan.outputs, batch);
}

}  // namespace millrace::worker
