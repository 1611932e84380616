#include "worker/model/output_metrics.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/output_spec.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"

namespace millrace::worker {
namespace {

constexpr uint64_t kMostClasses = 100;  // Of a confusion matrix.

absl::Status CheckConfusionMatrix(const OutputPlan& output, const std::string& path) {
  if (output.loss == BINARY_CROSSENTROPY && output.width > 1) {
    return Invalid(path, ": CONFUSION_MATRIX takes one label for each example, the output has ",
                   output.width);
  }
  if (output.classes() <= kMostClasses) return absl::OkStatus();
  return Invalid(path, ": CONFUSION_MATRIX takes at most ", kMostClasses,
                 " classes, the output has ", output.classes(), "; leave it out");
}

absl::Status CheckMetric(const MetricSpec& spec, const OutputPlan& output,
                         const std::string& path) {
  const Metric metric = spec.metric();
  if (metric == METRIC_UNSPECIFIED || !Metric_IsValid(metric)) {
    return Invalid(path, " is ", static_cast<int>(metric), "; use one of ",
                   ValueNames(Metric_descriptor()));
  }
  if (!MetricFits(metric, output.loss)) {
    return Invalid(path, ": ", Metric_Name(metric), " needs the loss ", LossesOf(metric),
                   ", it is ", Loss_Name(output.loss));
  }
  if (metric == TOP_K_ACCURACY && TopK(spec) > output.width) {
    return Invalid(path, ": k is ", TopK(spec), ", the output has ", output.width,
                   " classes; use at most as many");
  }
  return metric == CONFUSION_MATRIX ? CheckConfusionMatrix(output, path) : absl::OkStatus();
}

// The names under which the output's numbers are reported. A matrix is no number.
std::vector<std::string> ReportedNames(const OutputPlan& output) {
  std::vector<std::string> names = {output.ReportedName("loss")};
  for (const MetricPlan& metric : output.metrics) {
    if (metric.metric != CONFUSION_MATRIX) names.push_back(metric.name);
  }
  return names;
}

absl::Status CheckReportedName(const OutputPlan& output, const std::string& name) {
  if (name.size() > kMaxMetricNameBytes) {
    return Invalid(output.path, ".layer: '", name, "' would be reported, which has ", name.size(),
                   " bytes; at most ", kMaxMetricNameBytes, ": give the layer a shorter name");
  }
  if (!absl::StartsWith(name, "eval_")) return absl::OkStatus();
  return Invalid(output.path, ".layer: '", name, "' would be reported, and what begins with ",
                 "'eval_' is of evaluations; give the layer another name");
}

// Of all confusion matrices.
uint64_t Counts(const std::vector<OutputPlan>& outputs) {
  uint64_t counts = 0;
  for (const OutputPlan& output : outputs) {
    for (const MetricPlan& metric : output.metrics) {
      if (metric.metric == CONFUSION_MATRIX) counts += output.classes() * output.classes();
    }
  }
  return counts;
}

}  // namespace

absl::Status PlanMetrics(const OutputSpec& spec, OutputPlan* output) {
  for (int i = 0; i < spec.metrics_size(); ++i) {
    const MetricSpec& metric = spec.metrics(i);
    MILLRACE_RETURN_IF_ERROR(
        CheckMetric(metric, *output, absl::StrCat(output->path, ".metrics[", i, "]")));
    output->metrics.push_back({metric.metric(), output->ReportedName(MetricName(metric)),
                               TopK(metric), metric.num_thresholds()});
  }
  return absl::OkStatus();
}

absl::Status CheckReported(const std::vector<OutputPlan>& outputs) {
  absl::flat_hash_set<std::string> names;
  if (outputs.size() > 1) names.insert("loss");  // Of all together.
  for (const OutputPlan& output : outputs) {
    for (const std::string& name : ReportedNames(output)) {
      MILLRACE_RETURN_IF_ERROR(CheckReportedName(output, name));
      if (!names.insert(name).second) {
        return Invalid(output.path, ": '", name, "' is reported by another output or metric too; ",
                       "give the layer another name, or leave the metric out");
      }
    }
  }
  if (names.size() > kMostReportedMetrics) {
    return Invalid("model.outputs: ", names.size(), " losses and metrics; a model reports at most ",
                   kMostReportedMetrics);
  }
  if (Counts(outputs) <= kMostConfusionCounts) return absl::OkStatus();
  return Invalid("model.outputs: the confusion matrices have ", Counts(outputs), " counts; all ",
                 "together at most ", kMostConfusionCounts);
}

}  // namespace millrace::worker
