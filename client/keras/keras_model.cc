#include "client/keras/keras_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/keras/keras_config.h"
#include "client/keras/keras_layers.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

constexpr int kMostDepth = 100;  // Of objects and lists within each other; Keras's have 15.

// A tensor that a layer gave: which layer, and at which of its calls.
struct KerasTensor {
  std::string layer;
  size_t call = 0;
};

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

// "FILE:LINE:COLUMN" of a byte, counted from 1.
std::string PlaceOf(absl::string_view text, size_t byte, const std::string& file_name) {
  const absl::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_begin =
      before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
  return absl::StrCat(file_name, ":", line, ":", before.size() - line_begin + 1);
}

absl::StatusOr<KerasJson> ParseJson(absl::string_view text, const std::string& file_name) {
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, KerasJson::parse_event_t /*event*/, KerasJson&) {
    too_deep |= depth > kMostDepth;
    return !too_deep;
  };
  try {
    KerasJson json = KerasJson::parse(text.begin(), text.end(), keep);
    if (!too_deep) return json;
    return Invalid(absl::StrCat(file_name, ": objects more than ", kMostDepth, " deep"));
  } catch (const KerasJson::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    return Invalid(absl::StrCat(PlaceOf(text, byte, file_name), ": not JSON"));
  } catch (const KerasJson::out_of_range&) {  // It does not say where.
    return Invalid(absl::StrCat(file_name, ": a number past 64 bits; must be finite"));
  }
}

const KerasJson* FindObject(const KerasJson& json, const char* field) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(field);
  return found != json.end() && found->is_object() ? &*found : nullptr;
}

std::string TextAt(const KerasJson& json, const char* field) {
  if (!json.is_object()) return "";
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

const KerasJson& ListAt(const KerasJson& json, const char* field) {
  static const KerasJson kEmpty = KerasJson::array();
  if (!json.is_object()) return kEmpty;
  const auto found = json.find(field);
  return found != json.end() && found->is_array() ? *found : kEmpty;
}

// ["layer", call, output, ...], as both versions write where a tensor comes from.
bool IsHistory(const KerasJson& json) {
  return json.is_array() && json.size() >= 3 && json[0].is_string() &&
         json[1].is_number_unsigned() && json[2].is_number_unsigned();
}

// All tensors in what a layer was called with, in order: Keras 2 writes histories, Keras 3 objects
// that have one. False: a tensor that is not a layer's only output.
bool CollectTensors(const KerasJson& json, std::vector<KerasTensor>* tensors) {
  if (IsHistory(json)) {
    tensors->push_back({json[0].get<std::string>(), json[1].get<size_t>()});
    return json[2].get<size_t>() == 0;
  }
  if (const KerasJson* config = FindObject(json, "config");
      config != nullptr && config->contains("keras_history")) {
    return CollectTensors((*config)["keras_history"], tensors);
  }
  if (json.is_object() && json.contains("args")) return CollectTensors(json["args"], tensors);
  if (!json.is_array()) return true;
  return std::all_of(json.begin(), json.end(),
                     [&](const KerasJson& one) { return CollectTensors(one, tensors); });
}

class Converter {
 public:
  explicit Converter(const std::string& file_name) : file_name_(file_name) {}

  absl::StatusOr<KerasModel> Run(const KerasJson& json) {
    const std::string kind = TextAt(json, "class_name");
    const KerasJson* config = FindObject(json, "config");
    if (config == nullptr || (kind != "Sequential" && kind != "Functional" && kind != "Model")) {
      return Invalid(absl::StrCat(file_name_, ": class_name: '", PrintableName(kind),
                                  "'; must be Sequential or Functional, with a config, as "
                                  "Model.to_json writes it"));
    }
    const KerasJson& layers = ListAt(*config, "layers");
    if (layers.size() > static_cast<size_t>(kMaxLayers)) {
      return Invalid(absl::StrCat(file_name_, ": config.layers: ", layers.size(),
                                  " layers; must be at most ", kMaxLayers));
    }
    const bool is_chain = kind == "Sequential";
    for (size_t i = 0; i < layers.size(); ++i) {
      absl::Status status = is_chain ? AddToChain(layers[i]) : AddToGraph(layers[i]);
      if (!status.ok()) return Invalid(absl::StrCat(PathOf(layers[i], i), status.message()));
    }
    if (!is_chain) MILLRACE_RETURN_IF_ERROR(FinishGraph(*config));
    if (model_.model.layers().empty()) {
      return Invalid(absl::StrCat(file_name_, ": config.layers: none; must be at least one layer"));
    }
    LeaveOutLastActivation();
    model_.notes.push_back("The loss is not in the file: set model.loss (or model.outputs).");
    return std::move(model_);
  }

 private:
  std::string PathOf(const KerasJson& layer, size_t index) const {
    const KerasJson* config = FindObject(layer, "config");
    return absl::StrCat(file_name_, ": config.layers[", index, "] '",
                        PrintableName(config == nullptr ? "" : TextAt(*config, "name")), "': ");
  }

  // The layer without its inputs. Nothing: an input of the model.
  absl::StatusOr<LayerSpec> Convert(const KerasJson& json) {
    const KerasJson* config = FindObject(json, "config");
    if (config == nullptr) return Invalid("config: not there; must be an object");
    LayerSpec layer;
    layer.set_name(TextAt(*config, "name"));
    if (TextAt(json, "class_name") == "InputLayer") return layer;
    MILLRACE_RETURN_IF_ERROR(ConvertKerasLayer(TextAt(json, "class_name"), *config, &layer));
    return layer;
  }

  absl::Status AddToChain(const KerasJson& json) {
    MILLRACE_ASSIGN_OR_RETURN(LayerSpec layer, Convert(json));
    if (layer.kind_case() != LayerSpec::KIND_NOT_SET) *model_.model.add_layers() = std::move(layer);
    return absl::OkStatus();
  }

  absl::Status AddToGraph(const KerasJson& json) {
    MILLRACE_ASSIGN_OR_RETURN(const LayerSpec layer, Convert(json));
    if (layer.kind_case() == LayerSpec::KIND_NOT_SET) {
      inputs_.push_back(layer.name());
      return absl::OkStatus();
    }
    const KerasJson& calls = ListAt(json, "inbound_nodes");
    if (calls.empty()) return Invalid("inbound_nodes: none; must be at least one call");
    for (size_t call = 0; call < calls.size(); ++call) {
      std::vector<KerasTensor> taken;
      if (!CollectTensors(calls[call], &taken) || taken.empty()) {
        return Invalid(absl::StrCat("inbound_nodes[", call, "]: ", ShowJson(calls[call]),
                                    "; must be outputs of layers that have one"));
      }
      LayerSpec* called = model_.model.add_layers();
      *called = layer;
      if (call > 0) {
        called->set_name(NameOf({layer.name(), call}));
        called->set_variables_of(layer.name());
        called->clear_trainable();
      }
      taken_.push_back(std::move(taken));
    }
    return absl::OkStatus();
  }

  // The layer that stands for a call of a layer.
  static std::string NameOf(const KerasTensor& tensor) {
    return tensor.call == 0 ? tensor.layer : absl::StrCat(tensor.layer, "_call", tensor.call);
  }

  bool IsInput(const std::string& name) const {
    return std::find(inputs_.begin(), inputs_.end(), name) != inputs_.end();
  }

  // Names what each layer takes, and puts the output to the end.
  absl::Status FinishGraph(const KerasJson& config) {
    for (int i = 0; i < model_.model.layers_size(); ++i) {
      for (const KerasTensor& tensor : taken_[static_cast<size_t>(i)]) {
        model_.model.mutable_layers(i)->add_inputs(
            IsInput(tensor.layer) && inputs_.size() == 1 ? "features" : NameOf(tensor));
      }
    }
    NoteInputs();
    std::vector<KerasTensor> outputs;
    CollectTensors(ListAt(config, "output_layers"), &outputs);
    if (outputs.empty()) {
      return Invalid(
          absl::StrCat(file_name_, ": config.output_layers: none; must be at least one"));
    }
    return MoveToEnd(NameOf(outputs.front()), outputs.size());
  }

  void NoteInputs() {
    if (inputs_.size() == 1) {
      model_.notes.push_back(
          "The model's input is the feature 'features', as most formats of data call their only "
          "one.");
    } else {
      model_.notes.push_back(
          absl::StrCat("The data must have the features ", absl::StrJoin(inputs_, ", "), "."));
    }
  }

  absl::Status MoveToEnd(const std::string& name, size_t outputs) {
    auto& layers = *model_.model.mutable_layers();
    const auto last = std::find_if(layers.begin(), layers.end(),
                                   [&](const LayerSpec& layer) { return layer.name() == name; });
    if (last == layers.end()) {
      return Invalid(absl::StrCat(file_name_, ": config.output_layers: '", PrintableName(name),
                                  "'; must be the name of a layer"));
    }
    std::rotate(last, last + 1, layers.end());
    if (outputs > 1) {
      model_.notes.push_back(
          absl::StrCat("The model has ", outputs, " outputs: name each in model.outputs."));
    }
    return absl::OkStatus();
  }

  // A probability's layer is for people: the loss takes what was before it.
  void LeaveOutLastActivation() {
    auto& layers = *model_.model.mutable_layers();
    LayerSpec& last = layers[layers.size() - 1];
    const auto is_probability = [](Activation activation) {
      return activation == SOFTMAX || activation == SIGMOID;
    };
    if (last.has_dense() && is_probability(last.dense().activation())) {
      model_.notes.push_back(absl::StrCat("The activation of '", PrintableName(last.name()),
                                          "' is left out: losses take logits."));
      last.mutable_dense()->set_activation(LINEAR);
    } else if (last.has_activation() && is_probability(last.activation().function())) {
      model_.notes.push_back(absl::StrCat("The layer '", PrintableName(last.name()),
                                          "' does nothing: losses take logits."));
      last.mutable_activation()->set_function(LINEAR);
    }
  }

  const std::string file_name_;
  KerasModel model_;
  std::vector<std::string> inputs_;              // Names of the model's inputs.
  std::vector<std::vector<KerasTensor>> taken_;  // By each layer of the graph.
};

}  // namespace

absl::StatusOr<KerasModel> ConvertKerasModel(absl::string_view json, const std::string& file_name) {
  MILLRACE_ASSIGN_OR_RETURN(const KerasJson parsed, ParseJson(json, file_name));
  return Converter(file_name).Run(parsed);
}

}  // namespace millrace::client
