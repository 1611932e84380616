#include "client/keras/keras_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/keras/keras_dtypes.h"
#include "client/keras/keras_graph.h"
#include "client/keras/keras_json.h"
#include "client/keras/keras_training.h"
#include "client/keras/keras_values.h"
#include "common/printable.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

bool IsProbability(Activation activation) { return activation == SOFTMAX || activation == SIGMOID; }

// The activation that makes probabilities of what a loss takes. LINEAR: it takes values as they
// are.
Activation ActivationBefore(Loss loss) {
  switch (loss) {
    case SPARSE_CATEGORICAL_CROSSENTROPY:
    case CATEGORICAL_CROSSENTROPY:
      return SOFTMAX;
    case BINARY_CROSSENTROPY:
      return SIGMOID;
    default:
      return LINEAR;
  }
}

// What a layer's output went through at last.
Activation LastActivation(const LayerSpec& layer) {
  if (layer.has_dense()) return layer.dense().activation();
  if (layer.has_conv2d()) return layer.conv2d().activation();
  if (layer.has_conv1d()) return layer.conv1d().activation();
  return layer.has_activation() ? layer.activation().function() : LINEAR;
}

std::string NoteOfPolicy(const std::string& policy) {
  return absl::StrCat(
      "Layers have the dtype ", policy, ", which is left out: a job computes in float32",
      policy == "float64"
          ? "."
          : ", unless precision { compute: BFLOAT16 } is in the job file; variables are float32 in "
            "any case.");
}

class Assembly {
 public:
  Assembly(KerasGraph graph, KerasTraining training)
      : graph_(std::move(graph)), training_(std::move(training)) {}

  KerasModel Run() {
    NoteInputs();
    NoteSharedAverages();
    NoteRescalings();
    NoteAccuracies();
    MoveOutputToEnd();
    for (size_t i = 0; i < graph_.outputs.size(); ++i) SettleOutput(i);
    for (const LayerSpec& layer : graph_.layers) *result_.model.add_layers() = layer;
    result_.optimizer = std::move(training_.optimizer);
    result_.variables = std::move(graph_.variables);
    for (std::string& note : training_.notes) result_.notes.push_back(std::move(note));
    for (const std::string& one : graph_.left_out) {
      result_.notes.push_back(absl::StrCat("Left out, since its values are converted: ", one, "."));
    }
    SetLosses();
    return std::move(result_);
  }

 private:
  void NoteInputs() {
    if (graph_.inputs.empty()) return;
    if (graph_.inputs.size() > 1) {
      result_.notes.push_back(absl::StrCat("The data must have the features ",
                                           absl::StrJoin(graph_.inputs, ", "), "."));
    } else if (graph_.only_feature == kKerasOnlyFeature) {
      result_.notes.push_back(
          "The model's input is the feature 'features', as most formats of data call their only "
          "one.");
    } else {
      result_.notes.push_back(absl::StrCat("The model's input is the feature '",
                                           PrintableName(graph_.only_feature),
                                           "', which the data must have: a layer is called "
                                           "'features'."));
    }
  }

  // Once for each that is trained.
  void NoteSharedAverages() {
    std::set<std::string> shared;
    for (const LayerSpec& layer : graph_.layers) {
      if (layer.has_batch_normalization()) shared.insert(layer.variables_of());
    }
    for (const LayerSpec& layer : graph_.layers) {
      const bool is_frozen = layer.has_trainable() && !layer.trainable();
      if (is_frozen || shared.count(layer.name()) == 0) continue;
      result_.notes.push_back(absl::StrCat(
          "The layer '", PrintableName(layer.name()),
          "' is called several times: in training Keras moves its averages by each call, one after "
          "the other, and Millrace once, by the mean of the calls' statistics."));
    }
  }

  // Of features that some formats have divided already.
  void NoteRescalings() {
    for (const LayerSpec& layer : graph_.layers) {
      const double scale = layer.rescaling().has_scale() ? layer.rescaling().scale() : 1;
      if (!layer.has_rescaling() || BeforeIt(layer) != nullptr || !(scale > 0 && scale < 0.02)) {
        continue;
      }
      const double left = ShortNumber(scale * 255);
      const bool is_nothing = left == 1 && layer.rescaling().offset() == 0;
      result_.notes.push_back(absl::StrCat(
          "The layer '", PrintableName(layer.name()),
          "' makes pictures of 0 to 255 smaller: those of image_folder, idx and cifar are divided "
          "by 255 already. For these, set its scale to ",
          left, is_nothing ? " or remove the layer." : "."));
    }
  }

  // What Keras takes "accuracy" for follows from the output's width.
  void NoteAccuracies() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const KerasOutput& output = training_.outputs[i];
      const uint32_t units = UnitsOf(&*FindLayer(graph_.outputs[i]));
      if (!output.accuracy_by_shape || output.spec.loss() != BINARY_CROSSENTROPY || units < 2) {
        continue;
      }
      result_.notes.push_back(absl::StrCat(
          "ACCURACY of '", PrintableName(graph_.outputs[i]), "', whose loss is binary, is the ",
          "share of labels that are right, one by one (Keras's binary_accuracy); of its ", units,
          " units, Keras's \"accuracy\" is the share of examples whose largest output and label "
          "are "
          "the same one (categorical_accuracy)."));
    }
  }

  // The layer whose output is the only one that `layer` takes. Null: none is.
  const LayerSpec* BeforeIt(const LayerSpec& layer) {
    if (layer.inputs_size() > 1) return nullptr;
    // In a chain: the one before it.
    if (layer.inputs().empty()) return &layer == &graph_.layers.front() ? nullptr : &layer - 1;
    const auto found = FindLayer(layer.inputs(0));
    return found == graph_.layers.end() ? nullptr : &*found;
  }

  // How many numbers an output has last. 0: not known.
  uint32_t UnitsOf(const LayerSpec* layer) {
    for (size_t step = 0; layer != nullptr && step < graph_.layers.size(); ++step) {
      if (layer->has_dense()) return layer->dense().units();
      if (layer->has_conv2d()) return layer->conv2d().filters();
      if (!layer->has_activation() && !layer->has_dropout()) return 0;
      layer = BeforeIt(*layer);
    }
    return 0;
  }

  // The last layer is compared with a label, in any case.
  void MoveOutputToEnd() {
    const auto last = FindLayer(graph_.outputs.front());
    std::rotate(last, last + 1, graph_.layers.end());
  }

  std::vector<LayerSpec>::iterator FindLayer(const std::string& name) {
    return std::find_if(graph_.layers.begin(), graph_.layers.end(),
                        [&](const LayerSpec& layer) { return layer.name() == name; });
  }

  bool IsTaken(const std::string& name) const {
    return std::any_of(graph_.layers.begin(), graph_.layers.end(), [&](const LayerSpec& layer) {
      return std::find(layer.inputs().begin(), layer.inputs().end(), name) != layer.inputs().end();
    });
  }

  // A probability's layer is for people: a loss of classes takes what was before it.
  void SettleOutput(size_t index) {
    KerasOutput& output = training_.outputs[index];
    LayerSpec& layer = *FindLayer(graph_.outputs[index]);
    const Activation wanted = ActivationBefore(output.spec.loss());
    const bool known = output.spec.loss() != LOSS_UNSPECIFIED;
    if (known && wanted == LINEAR) return;
    const Activation activation = LastActivation(layer);
    if (known && !output.from_logits && activation != wanted) {
      result_.notes.push_back(absl::StrCat("The loss of '", PrintableName(layer.name()),
                                           "' is left out: it takes probabilities, and ",
                                           Activation_Name(wanted),
                                           " is not that layer's activation."));
      output.spec.clear_loss();
    } else if (IsProbability(activation)) {
      LeaveOutActivation(&layer);
      const std::string name = layer.name();  // The layer itself may move.
      if (IsTaken(name)) AddActivation(name, activation);
    }
  }

  // For the layers that take the output `name` and its activation, which is left out there.
  void AddActivation(const std::string& name, Activation activation) {
    LayerSpec after;
    after.set_name(absl::StrCat(name, "_activation"));
    while (FindLayer(after.name()) != graph_.layers.end()) after.mutable_name()->push_back('_');
    after.add_inputs(name);
    after.mutable_activation()->set_function(activation);
    for (LayerSpec& layer : graph_.layers) {
      for (std::string& input : *layer.mutable_inputs()) {
        if (input == name) input = after.name();
      }
    }
    result_.notes.push_back(absl::StrCat("What takes '", PrintableName(name), "' takes '",
                                         PrintableName(after.name()),
                                         "', which has its activation."));
    // Before it, so that the last layer stays the last.
    graph_.layers.insert(FindLayer(name), std::move(after));
  }

  void LeaveOutActivation(LayerSpec* layer) {
    const std::string name = PrintableName(layer->name());
    if (layer->has_activation()) {
      layer->mutable_activation()->set_function(LINEAR);
      result_.notes.push_back(
          absl::StrCat("The layer '", name, "' does nothing: losses take logits."));
      return;
    }
    if (layer->has_dense()) layer->mutable_dense()->set_activation(LINEAR);
    if (layer->has_conv2d()) layer->mutable_conv2d()->set_activation(LINEAR);
    if (layer->has_conv1d()) layer->mutable_conv1d()->set_activation(LINEAR);
    result_.notes.push_back(
        absl::StrCat("The activation of '", name, "' is left out: losses take logits."));
  }

  // In short, where that says it all.
  static bool IsSimple(const OutputSpec& output) {
    return output.label_smoothing() == 0 && !output.has_huber_delta() && !output.has_weight() &&
           std::all_of(output.metrics().begin(), output.metrics().end(), [](const MetricSpec& one) {
             return !one.has_k() && one.num_thresholds() == 0;
           });
  }

  void SetLosses() {
    std::vector<KerasOutput>& outputs = training_.outputs;
    const bool all_known = std::all_of(outputs.begin(), outputs.end(), [](const KerasOutput& one) {
      return one.spec.loss() != LOSS_UNSPECIFIED;
    });
    if (!all_known) {
      if (outputs.size() > 1) {
        result_.notes.push_back(absl::StrCat("The model has ", outputs.size(),
                                             " outputs: name each in model.outputs."));
      }
      result_.notes.push_back("The loss is not in the file: set model.loss (or model.outputs).");
    } else if (outputs.size() == 1 && IsSimple(outputs[0].spec)) {
      result_.model.set_loss(outputs[0].spec.loss());
      for (const MetricSpec& metric : outputs[0].spec.metrics()) {
        result_.model.add_metrics(metric.metric());
      }
    } else {
      SetOutputs();
    }
    if (all_known) LeaveOutWrongLosses();
  }

  void LeaveOutWrongLosses() {
    const absl::Status status = CheckOutputs(result_.model);
    if (status.ok()) return;
    result_.model.clear_loss();
    result_.model.clear_metrics();
    result_.model.clear_outputs();
    result_.notes.push_back(absl::StrCat("Left out of how the model was compiled: ",
                                         status.message(), ". Set model.loss (or model.outputs)."));
  }

  void SetOutputs() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      OutputSpec* output = result_.model.add_outputs();
      *output = training_.outputs[i].spec;
      if (graph_.outputs.size() == 1) return;
      output->set_layer(graph_.outputs[i]);
      // Keras knows labels by their outputs.
      output->set_label(graph_.output_names[i]);
    }
    result_.notes.push_back(absl::StrCat("The data must have the labels ",
                                         absl::StrJoin(graph_.output_names, ", "), "."));
  }

  KerasGraph graph_;
  KerasTraining training_;
  KerasModel result_;
};

}  // namespace

absl::StatusOr<KerasModel> ConvertKerasModel(absl::string_view json, const std::string& file_name,
                                             const KerasModelOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const KerasJson parsed, ParseKerasJson(json, file_name));
  MILLRACE_ASSIGN_OR_RETURN(KerasGraph graph,
                            ReadKerasGraph(parsed, file_name, options.values_given));
  KerasJson compile = ValueAt(parsed, "compile_config");
  if (!options.training.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(
        compile, ParseKerasJson(options.training, absl::StrCat(file_name, ": training_config")));
  }
  KerasTraining training = ReadKerasTraining(compile, graph.output_names, options.in_keras2_hdf5);
  KerasModel model = Assembly(std::move(graph), std::move(training)).Run();
  for (const std::string& policy : KerasFloatPolicies(parsed)) {
    model.notes.push_back(NoteOfPolicy(policy));
  }
  return model;
}

}  // namespace millrace::client
