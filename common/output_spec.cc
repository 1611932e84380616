#include "common/output_spec.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {

std::vector<OutputSpec> ModelOutputs(const ModelSpec& model) {
  if (!model.outputs().empty()) return {model.outputs().begin(), model.outputs().end()};
  OutputSpec output;
  output.set_loss(model.loss());
  for (int i = 0; i < model.metrics_size(); ++i) {
    output.add_metrics()->set_metric(model.metrics(i));
  }
  return {output};
}

std::string OutputPath(const ModelSpec& model, size_t output) {
  return model.outputs().empty() ? "model" : absl::StrCat("model.outputs[", output, "]");
}

bool HasClasses(Loss loss) {
  return loss == SPARSE_CATEGORICAL_CROSSENTROPY || loss == CATEGORICAL_CROSSENTROPY ||
         loss == BINARY_CROSSENTROPY;
}

bool MetricFits(Metric metric, Loss loss) {
  switch (metric) {
    case ACCURACY:
    case CONFUSION_MATRIX:
      return HasClasses(loss);
    case TOP_K_ACCURACY:
      return HasClasses(loss) && loss != BINARY_CROSSENTROPY;
    case AUC:
    case PRECISION:
    case RECALL:
      return loss == BINARY_CROSSENTROPY;
    case MAE:
    case MSE:
    case RMSE:
      return loss == MEAN_SQUARED_ERROR || loss == MEAN_ABSOLUTE_ERROR || loss == HUBER;
    default:
      return false;
  }
}

std::string LossesOf(Metric metric) {
  std::vector<std::string> losses;
  for (int loss = LOSS_UNSPECIFIED + 1; loss <= Loss_MAX; ++loss) {
    if (!Loss_IsValid(loss) || !MetricFits(metric, static_cast<Loss>(loss))) continue;
    losses.push_back(Loss_Name(static_cast<Loss>(loss)));
  }
  return absl::StrJoin(losses, " or ");
}

std::string MetricName(const MetricSpec& metric) {
  if (metric.metric() == TOP_K_ACCURACY) return absl::StrCat("top_", TopK(metric), "_accuracy");
  return absl::AsciiStrToLower(Metric_Name(metric.metric()));
}

double HuberDelta(const OutputSpec& output) {
  return output.has_huber_delta() ? output.huber_delta() : 1;
}

double OutputWeight(const OutputSpec& output) { return output.has_weight() ? output.weight() : 1; }

uint32_t TopK(const MetricSpec& metric) { return metric.has_k() ? metric.k() : 5; }

}  // namespace millrace
