// CheckOutputs, field by field in the order of protos/output.proto.
#include <cmath>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/data_labels.h"
#include "common/field_checks.h"
#include "common/output_spec.h"
#include "common/printable.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

constexpr uint32_t kMostThresholds = 100'000;

// Finite, at least 0.
absl::Status CheckWeight(const std::string& path, double weight) {
  const float used = static_cast<float>(weight);
  if (used >= 0 && std::isfinite(used)) return absl::OkStatus();
  return FieldError(path, absl::StrCat(weight), "a finite number, at least 0");
}

absl::Status CheckLossFields(const OutputSpec& output, const std::string& path) {
  const bool smooth =
      output.loss() == BINARY_CROSSENTROPY || output.loss() == CATEGORICAL_CROSSENTROPY;
  if (output.label_smoothing() != 0 && !smooth) {
    return FieldError(absl::StrCat(path, ".label_smoothing"),
                      absl::StrCat(output.label_smoothing()),
                      absl::StrCat("0 with ", Loss_Name(output.loss()),
                                   "; CATEGORICAL_CROSSENTROPY and BINARY_CROSSENTROPY have it"));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckFraction(absl::StrCat(path, ".label_smoothing"), output.label_smoothing()));
  if (!output.has_huber_delta()) return absl::OkStatus();
  if (output.loss() != HUBER) {
    return FieldError(absl::StrCat(path, ".huber_delta"), absl::StrCat(output.huber_delta()),
                      absl::StrCat("left out with ", Loss_Name(output.loss())));
  }
  return CheckPositive(absl::StrCat(path, ".huber_delta"), output.huber_delta());
}

absl::Status CheckWeights(const OutputSpec& output, const std::string& path) {
  for (int i = 0; i < output.class_weights_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckWeight(absl::StrCat(path, ".class_weights[", i, "]"), output.class_weights(i)));
  }
  if (!output.class_weights().empty() && !HasClasses(output.loss())) {
    return FieldError(absl::StrCat(path, ".class_weights"),
                      absl::StrCat(output.class_weights_size(), " numbers"),
                      absl::StrCat("empty with ", Loss_Name(output.loss()), ", which has none"));
  }
  return CheckWeight(absl::StrCat(path, ".weight"), OutputWeight(output));
}

absl::Status CheckMetricFields(const MetricSpec& metric, const std::string& path) {
  const std::string name = Metric_Name(metric.metric());
  if (metric.has_k()) {
    if (metric.metric() != TOP_K_ACCURACY) {
      return FieldError(absl::StrCat(path, ".k"), absl::StrCat(metric.k()),
                        absl::StrCat("left out with ", name));
    }
    MILLRACE_RETURN_IF_ERROR(CheckAtLeastOne(absl::StrCat(path, ".k"), metric.k(), 1 << 24));
  }
  if (metric.num_thresholds() == 0) return absl::OkStatus();
  if (metric.metric() != AUC) {
    return FieldError(absl::StrCat(path, ".num_thresholds"), absl::StrCat(metric.num_thresholds()),
                      absl::StrCat("left out with ", name));
  }
  if (metric.num_thresholds() >= 2 && metric.num_thresholds() <= kMostThresholds) {
    return absl::OkStatus();
  }
  return FieldError(absl::StrCat(path, ".num_thresholds"), absl::StrCat(metric.num_thresholds()),
                    absl::StrCat("0 for the exact area, or from 2 to ", kMostThresholds));
}

absl::Status CheckMetric(const OutputSpec& output, const MetricSpec& spec, const std::string& path,
                         const std::string& output_path) {
  const Metric metric = spec.metric();
  if (metric == METRIC_UNSPECIFIED) {
    return NotSet(path, absl::StrCat("one of ", ValueNames(Metric_descriptor())));
  }
  if (!MetricFits(metric, output.loss())) {
    return FieldError(path, Metric_Name(metric),
                      absl::StrCat("left out, or ", output_path, ".loss ", LossesOf(metric)));
  }
  return CheckMetricFields(spec, path);
}

absl::Status CheckMetrics(const OutputSpec& output, const std::string& path) {
  if (static_cast<size_t>(output.metrics_size()) > kMostReportedMetrics) {
    return FieldError(absl::StrCat(path, ".metrics"), absl::StrCat(output.metrics_size(), " ones"),
                      absl::StrCat("at most ", kMostReportedMetrics));
  }
  absl::flat_hash_set<std::string> seen;
  for (int i = 0; i < output.metrics_size(); ++i) {
    const std::string metric_path = absl::StrCat(path, ".metrics[", i, "]");
    const MetricSpec& metric = output.metrics(i);
    MILLRACE_RETURN_IF_ERROR(CheckMetric(output, metric, metric_path, path));
    if (!seen.insert(MetricName(metric)).second) {
      return FieldError(metric_path, Metric_Name(metric.metric()), "named once");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const OutputSpec& output, const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(CheckName(absl::StrCat(path, ".layer"), output.layer()));
  if (output.loss() == LOSS_UNSPECIFIED) {
    return NotSet(absl::StrCat(path, ".loss"),
                  absl::StrCat("one of ", ValueNames(Loss_descriptor())));
  }
  MILLRACE_RETURN_IF_ERROR(CheckLossFields(output, path));
  MILLRACE_RETURN_IF_ERROR(CheckWeights(output, path));
  return CheckMetrics(output, path);
}

// The short form is unset where the full one is set.
absl::Status CheckNoShortForm(const ModelSpec& model) {
  if (model.loss() != LOSS_UNSPECIFIED) {
    return FieldError("model.loss", Loss_Name(model.loss()),
                      "left out where model.outputs is set: each output has its own");
  }
  if (model.metrics().empty()) return absl::OkStatus();
  return FieldError("model.metrics", absl::StrCat(model.metrics_size(), " ones"),
                    "left out where model.outputs is set: each output has its own");
}

// `names`: of the labels that there are, at least one.
absl::Status CheckOutputLabel(const std::string& label, const std::vector<std::string>& names,
                              const std::string& path) {
  if (label.empty() && names.size() == 1) return absl::OkStatus();
  std::vector<std::string> quoted;
  for (const std::string& name : names) {
    if (name == label) return absl::OkStatus();
    quoted.push_back(absl::StrCat("'", PrintableName(name), "'"));
  }
  const std::string allowed = absl::StrJoin(quoted, ", ");
  if (names.size() > 1) {
    const std::string one_of = absl::StrCat("one of ", allowed, ", the labels of data.train");
    if (label.empty()) return NotSet(path, one_of);
    return FieldError(path, absl::StrCat("'", PrintableName(label), "'"), one_of);
  }
  return FieldError(path, absl::StrCat("'", PrintableName(label), "'"),
                    absl::StrCat(allowed, ", the only label of data.train, or left out"));
}

}  // namespace

absl::Status CheckOutputs(const ModelSpec& model) {
  if (!model.outputs().empty()) MILLRACE_RETURN_IF_ERROR(CheckNoShortForm(model));
  const std::vector<OutputSpec> outputs = ModelOutputs(model);
  absl::flat_hash_set<std::string> layers;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string path = OutputPath(model, i);
    MILLRACE_RETURN_IF_ERROR(CheckOutput(outputs[i], path));
    if (!layers.insert(outputs[i].layer()).second) {
      return FieldError(absl::StrCat(path, ".layer"), absl::StrCat("'", outputs[i].layer(), "'"),
                        "different from those of the outputs before it");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputLabels(const ModelSpec& model, const Dataset& train) {
  const std::vector<std::string> names = LabelNames(train);
  if (names.empty() || model.has_custom()) return absl::OkStatus();
  if (model.outputs().empty() && names.size() > 1) {
    return NotSet("model.outputs", absl::StrCat("at least one in place of model.loss, which has no "
                                                "label: data.train has ",
                                                names.size(), " labels"));
  }
  for (int i = 0; i < model.outputs_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckOutputLabel(model.outputs(i).label(), names,
                                              absl::StrCat("model.outputs[", i, "].label")));
  }
  return absl::OkStatus();
}

}  // namespace millrace
