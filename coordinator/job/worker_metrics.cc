#include "coordinator/job/worker_metrics.h"

#include <cstdint>
#include <iterator>

#include "absl/strings/match.h"
#include "common/metric_sum.h"
#include "common/output_spec.h"
#include "common/printable.h"

namespace millrace::coordinator {
namespace {

bool IsMetricName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxMetricNameBytes && PrintableName(name) == name;
}

bool IsTaken(const std::string& name) {
  return name == "loss" || name == "accuracy" || absl::StartsWith(name, "eval_");
}

bool IsUsable(const ConfusionMatrix& matrix) {
  const uint64_t classes = matrix.classes();
  return classes >= 1 && classes <= kMostConfusionCounts &&
         static_cast<uint64_t>(matrix.counts_size()) == classes * classes &&
         (matrix.output().empty() || IsMetricName(matrix.output()));
}

}  // namespace

std::map<std::string, double> UsableMetrics(const EvaluationResult& result) {
  std::map<std::string, double> usable;
  for (const auto& [name, value] : result.metrics()) {
    if (!IsMetricName(name)) continue;
    usable[name] = value;
    if (usable.size() > kMostReportedMetrics) usable.erase(std::prev(usable.end()));
  }
  return usable;
}

std::vector<ConfusionMatrix> UsableMatrices(const EvaluationResult& result) {
  std::vector<ConfusionMatrix> usable;
  uint64_t counts = 0;
  for (const ConfusionMatrix& matrix : result.confusion_matrices()) {
    counts += static_cast<uint64_t>(matrix.counts_size());
    if (counts > kMostConfusionCounts) return {};
    if (IsUsable(matrix)) usable.push_back(matrix);
  }
  return usable;
}

void AddMetricSums(const StepResult& result, std::map<std::string, MetricSum>* sums) {
  for (const MetricSum& sum : result.metric_sums()) {
    if (!IsMetricName(sum.name()) || IsTaken(sum.name())) continue;
    if (sums->size() >= kMostReportedMetrics && !sums->contains(sum.name())) continue;
    AddMetricSum(sum, &(*sums)[sum.name()]);
  }
}

}  // namespace millrace::coordinator
