#include "client/keras/keras_training.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/keras/keras_config.h"
#include "client/keras/keras_optimizer_notes.h"
#include "client/keras/keras_values.h"
#include "common/output_spec.h"

namespace millrace::client {
namespace {

// Something that has a class, or is a name: no list or table of such things.
bool IsOne(const KerasJson& json) { return !KerasClassOf(json).empty(); }

// What is said of an output: for all of them, in a list, or in a table by name. Null: nothing.
const KerasJson& OfOutput(const KerasJson& json, size_t index, const std::string& name,
                          size_t outputs) {
  static const KerasJson null;
  if (json.is_null() || IsOne(json)) return json;
  if (json.is_object()) return ValueAt(json, name.c_str());
  if (!json.is_array()) return json.is_number() ? json : null;
  // Of one output a list has several metrics.
  if (outputs == 1 && !(json.size() == 1 && json[0].is_array())) return json;
  return index < json.size() ? json[index] : null;
}

class TrainingReader {
 public:
  TrainingReader(const KerasJson& compile, bool in_keras2_hdf5)
      : compile_(compile), in_keras2_hdf5_(in_keras2_hdf5) {}

  KerasTraining Run(const std::vector<std::string>& output_names) {
    ReadOptimizer();
    const size_t outputs = output_names.size();
    for (size_t i = 0; i < outputs; ++i) {
      const auto of = [&](const char* field) -> const KerasJson& {
        return OfOutput(ValueAt(compile_, field), i, output_names[i], outputs);
      };
      KerasOutput& output = training_.outputs.emplace_back();
      ReadLoss(of("loss"), &output);
      ReadWeight(of("loss_weights"), &output);
      ReadMetrics(of("metrics"), &output);
      ReadMetrics(of("weighted_metrics"), &output);
    }
    if (HasAny(ValueAt(compile_, "weighted_metrics"))) {
      training_.notes.push_back(
          "weighted_metrics are metrics as all others: weights of examples and of classes count in "
          "losses, and in no metric.");
    }
    return std::move(training_);
  }

 private:
  // Whether there is anything in these lists, be they of outputs.
  static bool HasAny(const KerasJson& lists) {
    if (!lists.is_structured()) return !lists.is_null();
    return std::any_of(lists.begin(), lists.end(), HasAny);
  }

  void LeaveOut(const absl::Status& why) {
    training_.notes.push_back(
        absl::StrCat("Left out of how the model was compiled: ", why.message(), "."));
  }

  void ReadOptimizer() {
    const KerasJson& json = ValueAt(compile_, "optimizer_config").is_null()
                                ? ValueAt(compile_, "optimizer")
                                : ValueAt(compile_, "optimizer_config");
    if (json.is_null()) return;
    absl::StatusOr<OptimizerSpec> spec = ConvertKerasOptimizer(json, in_keras2_hdf5_);
    if (!spec.ok()) {
      training_.notes.push_back(NoteOfRefusedKerasOptimizer(json, spec.status(), in_keras2_hdf5_));
      return;
    }
    for (std::string& note : NotesOfKerasOptimizer(json, *spec)) {
      training_.notes.push_back(std::move(note));
    }
    training_.optimizer = *std::move(spec);
  }

  void ReadLoss(const KerasJson& json, KerasOutput* output) {
    const bool in_list = json.is_array() && json.size() == 1;
    const KerasJson& loss = in_list ? json[0] : json;
    if (loss.is_null()) return;
    absl::StatusOr<KerasOutput> converted = ConvertKerasLoss(loss);
    if (!converted.ok()) return LeaveOut(converted.status());
    *output = *std::move(converted);
    const KerasJson* fields = FindObject(loss, "config");
    if (output->spec.loss() == HUBER && fields != nullptr && !fields->contains("delta")) {
      output->spec.set_huber_delta(1);  // So that the job has the field that may be another.
      training_.notes.push_back(
          "Keras does not write the delta of Huber into its file: huber_delta is 1, as Keras has "
          "it by default; set the one that the model was compiled with.");
    }
  }

  static void ReadWeight(const KerasJson& json, KerasOutput* output) {
    const KerasJson& weight = json.is_array() && json.size() == 1 ? json[0] : json;
    if (!weight.is_number() || weight == 1) return;
    output->spec.set_weight(ShortNumber(weight.get<double>()));
  }

  void ReadMetrics(const KerasJson& json, KerasOutput* output) {
    if (json.is_null()) return;
    if (json.is_array()) {
      for (const KerasJson& one : json) ReadMetrics(one, output);
      return;
    }
    absl::StatusOr<MetricSpec> metric = ConvertKerasMetric(json, output->from_logits);
    if (!metric.ok()) return LeaveOut(metric.status());
    if (output->spec.loss() != LOSS_UNSPECIFIED &&
        !MetricFits(metric->metric(), output->spec.loss())) {
      return LeaveOut(KerasFieldError("metrics", json, "one of the loss's kind"));
    }
    NoteOtherAccuracy(json, metric->metric(), output);
    for (const MetricSpec& there : output->spec.metrics()) {
      if (there.metric() == metric->metric() && there.k() == metric->k()) return;
    }
    *output->spec.add_metrics() = *std::move(metric);
  }

  // ACCURACY is the one of the loss's kind.
  void NoteOtherAccuracy(const KerasJson& json, Metric metric, KerasOutput* output) {
    if (metric != ACCURACY) return;
    const Loss loss = output->spec.loss();
    const std::string name = KerasMetricEnumName(json);
    const bool binary = name == "BINARY_ACCURACY";
    const bool categorical =
        name == "CATEGORICAL_ACCURACY" || name == "SPARSE_CATEGORICAL_ACCURACY";
    if (!binary && !categorical) output->accuracy_by_shape = true;
    if (loss == BINARY_CROSSENTROPY ? !categorical : !binary || loss == LOSS_UNSPECIFIED) return;
    training_.notes.push_back(
        absl::StrCat("metrics: ", ShowJson(json), ": ACCURACY of ", Loss_Name(loss),
                     loss == BINARY_CROSSENTROPY
                         ? " is the share of labels that are right, one by one (Keras's "
                           "binary_accuracy)."
                         : " is the share of examples whose class has the largest value (Keras's "
                           "categorical_accuracy)."));
  }

  const KerasJson& compile_;
  const bool in_keras2_hdf5_;
  KerasTraining training_;
};

}  // namespace

KerasTraining ReadKerasTraining(const KerasJson& compile,
                                const std::vector<std::string>& output_names, bool in_keras2_hdf5) {
  return TrainingReader(compile, in_keras2_hdf5).Run(output_names);
}

}  // namespace millrace::client
