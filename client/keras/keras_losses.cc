#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/keras/keras_config.h"
#include "client/keras/keras_training.h"
#include "client/keras/keras_values.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

constexpr std::pair<const char*, Loss> kLossNames[] = {
    {"MSE", MEAN_SQUARED_ERROR}, {"MAE", MEAN_ABSOLUTE_ERROR}, {"HUBER_LOSS", HUBER}};

constexpr std::pair<const char*, Metric> kMetricNames[] = {
    {"ACCURACY", ACCURACY},
    {"ACC", ACCURACY},
    {"SPARSE_CATEGORICAL_ACCURACY", ACCURACY},
    {"CATEGORICAL_ACCURACY", ACCURACY},
    {"BINARY_ACCURACY", ACCURACY},
    {"AUC", AUC},
    {"PRECISION", PRECISION},
    {"RECALL", RECALL},
    {"MEAN_ABSOLUTE_ERROR", MAE},
    {"MEAN_SQUARED_ERROR", MSE},
    {"MAE", MAE},
    {"MSE", MSE},
    {"ROOT_MEAN_SQUARED_ERROR", RMSE},
    {"TOP_K_CATEGORICAL_ACCURACY", TOP_K_ACCURACY},
    {"SPARSE_TOP_K_CATEGORICAL_ACCURACY", TOP_K_ACCURACY},
};

// What a metric is called; of one that only wraps a function, as Keras 2 writes those that were
// asked for by name ("accuracy"), the function's name. That is a text, or stands in a "function".
std::string KerasMetricName(const KerasJson& metric) {
  const std::string name = KerasClassOf(metric);
  if (name != "MeanMetricWrapper") return name;
  const KerasJson& function = ValueAt(ValueAt(metric, "config"), "fn");
  if (!function.is_object()) return KerasClassOf(function);
  return OwnKerasClass(function).empty() ? TextAt(function, "config") : "";
}

absl::Status TakeLossFields(KerasConfig* config, KerasOutput* output) {
  MILLRACE_ASSIGN_OR_RETURN(output->from_logits, config->TakeBool("from_logits", false));
  MILLRACE_ASSIGN_OR_RETURN(const double smoothing, config->TakeNumber("label_smoothing", 0));
  output->spec.set_label_smoothing(ShortNumber(smoothing));
  MILLRACE_ASSIGN_OR_RETURN(const double delta, config->TakeNumber("delta", 1));
  if (delta != 1) output->spec.set_huber_delta(ShortNumber(delta));
  MILLRACE_RETURN_IF_ERROR(config->Expect("reduction", {"sum_over_batch_size", "auto"}));
  MILLRACE_RETURN_IF_ERROR(config->Expect("axis", {-1}));
  // The function that the class wraps; it says the same.
  config->Take("fn");
  return config->ExpectNothingElse();
}

absl::Status TakeMetricFields(KerasConfig* config, bool from_logits, MetricSpec* spec) {
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t k, config->TakeCountOfOne("k"));
  if (spec->metric() == TOP_K_ACCURACY && k > 0) spec->set_k(k);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t thresholds, config->TakeCountOfOne("num_thresholds"));
  if (spec->metric() == AUC) spec->set_num_thresholds(thresholds == 0 ? 200 : thresholds);
  // A probability above one half is a logit above 0. Keras's default of 0.5 says nothing of what is
  // wanted of logits.
  std::vector<KerasJson> one_half = {0.5, {0.5}};
  if (from_logits) one_half.insert(one_half.end(), {0, {0}});
  MILLRACE_RETURN_IF_ERROR(config->Expect("threshold", one_half));
  MILLRACE_RETURN_IF_ERROR(config->Expect("thresholds", one_half));
  MILLRACE_RETURN_IF_ERROR(config->Expect("curve", {"ROC"}));
  MILLRACE_RETURN_IF_ERROR(config->Expect("summation_method", {"interpolation"}));
  for (const char* field : {"from_logits", "fn"}) config->Take(field);
  return config->ExpectNothingElse();
}

}  // namespace

std::string KerasMetricEnumName(const KerasJson& metric) {
  std::string name = KerasEnumName(KerasMetricName(metric));
  // "SparseTopKCategoricalAccuracy" has words of one letter.
  const size_t at = name.find("TOP_KC");
  if (at != std::string::npos) name.insert(at + 5, "_");
  return name;
}

absl::StatusOr<KerasOutput> ConvertKerasLoss(const KerasJson& loss) {
  const std::string name = absl::AsciiStrToUpper(KerasEnumName(KerasClassOf(loss)));
  Loss kind = LOSS_UNSPECIFIED;
  if (!Loss_Parse(name, &kind)) {
    for (const auto& [known, meant] : kLossNames) {
      if (name == known) kind = meant;
    }
  }
  if (kind == LOSS_UNSPECIFIED) {
    return KerasFieldError("loss", loss, absl::StrCat("one of ", ValueNames(Loss_descriptor())));
  }
  KerasOutput output;
  output.spec.set_loss(kind);
  if (const KerasJson* fields = FindObject(loss, "config"); fields != nullptr) {
    KerasConfig config(*fields);
    MILLRACE_RETURN_IF_ERROR(TakeLossFields(&config, &output));
  }
  return output;
}

absl::StatusOr<MetricSpec> ConvertKerasMetric(const KerasJson& metric, bool from_logits) {
  const std::string name = KerasMetricEnumName(metric);
  MetricSpec spec;
  for (const auto& [known, meant] : kMetricNames) {
    if (name == known) spec.set_metric(meant);
  }
  if (spec.metric() == METRIC_UNSPECIFIED) {
    return KerasFieldError("metrics", metric,
                           absl::StrCat("one of ", ValueNames(Metric_descriptor())));
  }
  if (const KerasJson* fields = FindObject(metric, "config"); fields != nullptr) {
    KerasConfig config(*fields);
    MILLRACE_RETURN_IF_ERROR(TakeMetricFields(&config, from_logits, &spec));
  } else if (spec.metric() == AUC) {
    spec.set_num_thresholds(200);
  }
  return spec;
}

}  // namespace millrace::client
