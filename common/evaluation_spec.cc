#include "common/evaluation_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/output_spec.h"

namespace millrace {
namespace {

constexpr char kEvaluationLoss[] = "eval_loss";

// What the output's numbers begin with.
std::string PrefixOf(const ModelSpec& model, const OutputSpec& output) {
  const std::string& layer =
      output.layer().empty() ? LayerName(model, model.layers_size() - 1) : output.layer();
  return absl::StrCat("eval_", layer, "_");
}

}  // namespace

std::vector<std::string> EvaluationMetrics(const ModelSpec& model) {
  if (model.has_custom() || model.layers().empty()) return {};
  std::vector<std::string> names = {kEvaluationLoss};
  const std::vector<OutputSpec> outputs = ModelOutputs(model);
  for (const OutputSpec& output : outputs) {
    const bool alone = outputs.size() == 1;
    const std::string prefix = alone ? "eval_" : PrefixOf(model, output);
    if (!alone) names.push_back(absl::StrCat(prefix, "loss"));
    for (const MetricSpec& metric : output.metrics()) {
      if (metric.metric() == CONFUSION_MATRIX) continue;  // It is no number.
      names.push_back(absl::StrCat(prefix, MetricName(metric)));
    }
  }
  return names;
}

absl::optional<bool> LargerIsBetter(const std::string& metric, MetricGoal goal) {
  if (goal != GOAL_BY_NAME) return goal == LARGER_IS_BETTER;
  const std::string word = metric.substr(metric.rfind('_') + 1);
  for (const char* large : {"accuracy", "auc", "precision", "recall"}) {
    if (word == large) return true;
  }
  for (const char* small : {"loss", "mae", "mse", "rmse"}) {
    if (word == small) return false;
  }
  return absl::nullopt;
}

std::string MetricOf(const EarlyStopping& spec) {
  return spec.metric().empty() ? kEvaluationLoss : spec.metric();
}

std::string MetricOf(const KeepBest& spec) {
  return spec.metric().empty() ? kEvaluationLoss : spec.metric();
}

std::string DescribeStop(const StoppedEarly& stopped) {
  return absl::StrCat("stopped early at step ", stopped.step(), " of ", stopped.total_steps(), ": ",
                      stopped.reason());
}

uint32_t StoppingPatience(const EarlyStopping& spec) {
  return std::max<uint32_t>(spec.patience(), 1);
}

}  // namespace millrace
