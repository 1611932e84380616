// CheckOutputs, field by field in the order of protos/output.proto.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/data_labels.h"
#include "common/evaluation_set.h"
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
  const bool in_double = weight >= 0 && std::isfinite(weight);
  return FieldError(path, absl::StrCat(weight),
                    absl::StrCat("a finite number, at least 0", in_double ? ", as a float32" : ""));
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

std::string Quoted(const std::string& name) { return absl::StrCat("'", PrintableName(name), "'"); }

// "'digit', 'size'".
std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, Quoted(name));
  });
}

// `names`: of the labels that there are, at least one.
absl::Status CheckOutputLabel(const std::string& label, const std::vector<std::string>& names,
                              const std::string& path) {
  if (label.empty() && names.size() == 1) return absl::OkStatus();
  if (std::find(names.begin(), names.end(), label) != names.end()) return absl::OkStatus();
  if (names.size() > 1) {
    const std::string one_of = absl::StrCat("one of ", Quoted(names), ", the labels of data.train");
    return label.empty() ? NotSet(path, one_of) : FieldError(path, Quoted(label), one_of);
  }
  return FieldError(path, Quoted(label),
                    absl::StrCat(Quoted(names), ", the only label of data.train, or left out"));
}

// Whether label `index` of data.evaluate is the one of data.train, whose labels are `wanted`.
absl::Status CheckEvaluationLabel(const Dataset& evaluate, const std::vector<std::string>& wanted,
                                  size_t index) {
  constexpr char kPath[] = "data.evaluate";
  constexpr char kAsInTrain[] = ", as in data.train";
  const std::vector<std::string> names = LabelNames(evaluate);
  if (index < names.size() && names[index] == wanted[index]) return absl::OkStatus();
  if (const auto path = LabelNamePath(evaluate, kPath, index)) {
    return FieldError(*path, Quoted(names[index]), absl::StrCat(Quoted(wanted[index]), kAsInTrain));
  }
  return FieldError(kPath, names.empty() ? "no label" : absl::StrCat("labels ", Quoted(names)),
                    absl::StrCat("labels ", Quoted(wanted), kAsInTrain));
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
                                                Quoted(names)));
  }
  for (int i = 0; i < model.outputs_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckOutputLabel(model.outputs(i).label(), names,
                                              absl::StrCat("model.outputs[", i, "].label")));
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluationLabels(const ModelSpec& model, const DataSpec& data) {
  const std::vector<std::string> names = LabelNames(data.train());
  if (names.empty() || model.has_custom() || !data.has_evaluate()) return absl::OkStatus();
  const Dataset evaluate = EvaluationSet(data);
  for (const OutputSpec& output : ModelOutputs(model)) {
    const size_t index =
        output.label().empty()
            ? 0
            : std::find(names.begin(), names.end(), output.label()) - names.begin();
    MILLRACE_RETURN_IF_ERROR(CheckEvaluationLabel(evaluate, names, index));
  }
  return absl::OkStatus();
}

}  // namespace millrace
