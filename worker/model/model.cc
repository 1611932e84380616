#include "worker/model/model.h"

#include "worker/model/metrics.h"

namespace millrace::worker {

std::map<std::string, double> EvaluationMetrics(const EvaluationSums& sums) {
  const double examples = static_cast<double>(sums.examples);
  std::map<std::string, double> metrics = {{"loss", sums.loss_sum / examples}};
  if (sums.accuracy_sum.has_value()) metrics["accuracy"] = *sums.accuracy_sum / examples;
  if (!sums.scores.empty()) {
    const absl::optional<double> auc = AreaUnderRocCurve(sums.scores, sums.positives);
    if (auc.has_value()) metrics["auc"] = *auc;
  }
  return metrics;
}

}  // namespace millrace::worker
