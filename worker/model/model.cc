#include "worker/model/model.h"

#include "common/metric_sum.h"

namespace millrace::worker {

void AddTo(const std::string& name, double sum, double count, bool root, MetricSums* sums) {
  MetricSum more;
  more.set_name(name);
  more.set_sum(sum);
  more.set_count(count);
  more.set_root(root);
  AddMetricSum(more, &(*sums)[name]);
}

std::map<std::string, double> EvaluationMetrics(const EvaluationSums& sums) {
  const double examples = static_cast<double>(sums.examples);
  std::map<std::string, double> metrics = {{"loss", sums.loss_sum / examples}};
  if (sums.accuracy_sum.has_value()) metrics["accuracy"] = *sums.accuracy_sum / examples;
  for (const auto& [name, sum] : sums.metric_sums) metrics[name] = MetricValue(sum);
  for (const auto& [name, curve] : sums.curves) {
    if (const absl::optional<double> area = curve.Area()) metrics[name] = *area;
  }
  return metrics;
}

}  // namespace millrace::worker
