// CheckLabels of a batch.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/output_spec.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/model/batch_metrics.h"
#include "worker/model/invalid.h"

namespace millrace::worker {
namespace {

constexpr double kSumTolerance = 1e-3;  // Of the probabilities of an example.

absl::Status BadLabel(const OutputPlan& output, const std::string& value,
                      const std::string& allowed) {
  return Invalid("a batch has the label ", value, " in '", output.label_name, "'; the loss takes ",
                 allowed);
}

absl::Status CheckIds(const OutputPlan& output, const std::vector<int64_t>& ids) {
  const auto limit = static_cast<int64_t>(output.classes());  // See kMaxExampleElements.
  for (const int64_t id : ids) {
    if (id >= 0 && id < limit) continue;
    return BadLabel(output, absl::StrCat(id), absl::StrCat("0 to ", limit - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckFloats(const OutputPlan& output, const std::vector<float>& floats) {
  const bool probabilities = HasClasses(output.loss);
  for (const float value : floats) {
    if (probabilities ? value >= 0 && value <= 1 : std::isfinite(value)) continue;
    return BadLabel(output, absl::StrCat(value), probabilities ? "0 to 1" : "finite numbers");
  }
  return absl::OkStatus();
}

absl::Status CheckProbabilities(const OutputPlan& output, const std::vector<float>& floats) {
  for (size_t begin = 0; begin < floats.size(); begin += output.width) {
    double sum = 0;
    for (size_t i = 0; i < output.width; ++i) sum += floats[begin + i];
    if (std::abs(sum - 1) <= kSumTolerance) continue;
    return Invalid("a batch has probabilities that add up to ", sum, " in '", output.label_name,
                   "'; the loss takes those of all classes, which add up to 1");
  }
  return absl::OkStatus();
}

absl::Status CheckLabel(const OutputPlan& output, const Batch& batch) {
  const Tensor& label = batch.labels[output.label];
  if (output.label_is_id) {
    CHECK_EQ(label.ids.size(), batch.size);
    return CheckIds(output, label.ids);
  }
  CHECK_EQ(label.floats.size(), batch.size * output.width);
  MILLRACE_RETURN_IF_ERROR(CheckFloats(output, label.floats));
  return output.loss == CATEGORICAL_CROSSENTROPY ? CheckProbabilities(output, label.floats)
                                                 : absl::OkStatus();
}

}  // namespace

absl::Status CheckLabels(absl::Span<const OutputPlan> outputs, const Batch& batch) {
  for (const OutputPlan& output : outputs) MILLRACE_RETURN_IF_ERROR(CheckLabel(output, batch));
  CHECK(batch.weights.empty() || batch.weights.size() == batch.size);
  for (const float weight : batch.weights) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    return Invalid("a batch has an example of the weight ", weight,
                   "; a weight is finite and at least 0");
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
