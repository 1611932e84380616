// What a layer takes is written down as a reference: the name of a layer of ours or of a feature,
// or, since layers may stand in any order, a symbol for an output of a layer of Keras's, which
// `tensors_` translates when all layers are known. A model within a model has no layer of its own:
// its symbols stand for those of its last layers, and its InputLayers' for what it was called with.
// Called again, it is read again, with other names and the first one's variables.
#include "client/keras/keras_graph.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/keras/keras_call.h"
#include "client/keras/keras_config.h"
#include "client/keras/keras_layers.h"
#include "client/keras/keras_prune.h"
#include "client/keras/keras_ranks.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

using References = std::vector<std::string>;

absl::Status InvalidGraph(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// What the only input is called: as most formats of data call their only feature, if no layer is.
std::string OnlyFeature(const KerasJson& layers) {
  std::string input = "inputs";
  bool is_taken = false;
  for (const KerasJson& layer : layers) {
    if (IsKerasInputLayer(layer)) {
      input = KerasLayerName(layer);
    } else if (KerasLayerName(layer) == kKerasOnlyFeature) {
      is_taken = true;
    }
  }
  return is_taken ? input : kKerasOnlyFeature;
}

// Where a layer of a model is read.
struct Scope {
  std::string prefix;     // Of the names of layers, at this call of the model.
  std::string owner;      // At its first call: of those that have the variables.
  std::string group;      // Of the model's layers in a file of weights.
  std::string top_layer;  // Empty: this is the whole model.
  absl::optional<bool> training;

  std::string Symbol(const KerasTensor& tensor) const {
    return absl::StrCat("\n", prefix, tensor.layer, "\n", tensor.call, "\n", tensor.output);
  }
};

bool IsSymbol(const std::string& reference) { return absl::StartsWith(reference, "\n"); }

std::string LayerOfSymbol(const std::string& symbol) {
  const std::vector<std::string> parts = absl::StrSplit(symbol, '\n');
  return PrintableName(parts.size() > 1 ? parts[1] : "");
}

std::string CallName(const std::string& layer, size_t call) {
  return call == 0 ? layer : absl::StrCat(layer, "_call", call);
}

// "conv2d", "conv2d_1": what Keras 3's files call the layers of a model, in their order.
References GroupNames(const KerasJson& layers) {
  std::map<std::string, int> count;
  References names;
  for (const KerasJson& layer : layers) {
    const std::string name = KerasSnakeCase(TextAt(layer, "class_name"));
    const int before = count[name]++;
    names.push_back(before == 0 ? name : absl::StrCat(name, "_", before));
  }
  return names;
}

// What a layer does that was called with training=...
absl::Status ApplyTraining(absl::optional<bool> training, LayerSpec* layer) {
  if (!training.has_value() || !(layer->has_dropout() || layer->has_batch_normalization())) {
    return absl::OkStatus();
  }
  if (*training) {
    return InvalidGraph(
        "it is called with training=True; must be left out to be converted: it "
        "computes in evaluations as in them");
  }
  if (layer->has_dropout()) layer->mutable_dropout()->set_rate(0);
  if (layer->has_dropout() || (layer->has_trainable() && !layer->trainable())) {
    return absl::OkStatus();
  }
  return InvalidGraph(
      "it is called with training=False; it must be frozen (trainable=False) to be "
      "converted");
}

class GraphReader {
 public:
  GraphReader(const std::string& file_name, bool values_given)
      : file_name_(file_name), values_given_(values_given) {}

  absl::StatusOr<KerasGraph> Run(const KerasJson& json) {
    const std::string kind = KerasClassName(json);
    if (FindObject(json, "config") == nullptr || !IsKerasModelClass(kind)) {
      return InvalidGraph(absl::StrCat(file_name_, ": class_name: '", PrintableName(kind),
                                       "'; must be Sequential or Functional, with a config, as "
                                       "Model.to_json writes it"));
    }
    Scope scope;
    scope.group = "layers/";
    References outputs;
    const KerasJson& layers = ListAt(json["config"], "layers");
    graph_.only_feature = OnlyFeature(layers);
    if (kind != "Sequential") NameInputs(layers, scope);
    const absl::Status status = ReadModel(json, scope, {graph_.only_feature}, &outputs);
    if (!status.ok()) return InvalidGraph(absl::StrCat(file_name_, ": ", status.message()));
    MILLRACE_RETURN_IF_ERROR(Finish(outputs));
    kind == "Sequential" ? LeaveOutInputsOfChain() : LeaveOutUnusedLayers(&graph_);
    const absl::Status circle = CheckNoCircle(graph_);
    if (!circle.ok()) return Prefixed(absl::StrCat(file_name_, ": "), circle);
    return std::move(graph_);
  }

 private:
  // The whole model's InputLayers stand for features of the data.
  void NameInputs(const KerasJson& layers, const Scope& scope) {
    for (const KerasJson& layer : layers) {
      if (IsKerasInputLayer(layer)) graph_.inputs.push_back(KerasLayerName(layer));
    }
    for (const std::string& name : graph_.inputs) {
      tensors_[scope.Symbol({name})] = graph_.inputs.size() == 1 ? graph_.only_feature : name;
    }
    for (const KerasJson& layer : layers) {
      if (!IsKerasInputLayer(layer)) continue;
      ranks_.Note(scope.Symbol({KerasLayerName(layer)}), KerasInputRank(layer));
    }
  }

  // Of a model called with `inputs`; appends what its outputs are.
  absl::Status ReadModel(const KerasJson& json, const Scope& scope, const References& inputs,
                         References* outputs) {
    const KerasJson& config = ValueAt(json, "config");
    const KerasJson& layers = ListAt(config, "layers");
    if (layers.size() > static_cast<size_t>(kMaxLayers)) {
      return InvalidGraph(
          absl::StrCat("config.layers: ", layers.size(), " layers; must be at most ", kMaxLayers));
    }
    return KerasClassName(json) == "Sequential" ? ReadChain(layers, scope, inputs, outputs)
                                                : ReadGraph(config, scope, inputs, outputs);
  }

  absl::Status ReadChain(const KerasJson& layers, const Scope& scope, References references,
                         References* outputs) {
    const References groups = GroupNames(layers);
    for (size_t i = 0; i < layers.size(); ++i) {
      if (references.size() == 1) ranks_.Note(references[0], KerasInputRank(layers[i]));
      if (IsKerasInputLayer(layers[i])) continue;
      References given;
      const absl::Status status =
          references.size() == 1
              ? ReadLayer(layers[i], groups[i], scope, {/*call=*/0, references, scope.training},
                          &given)
              : InvalidGraph(absl::StrCat("takes ", references.size(),
                                          " tensors; must take one in a Sequential model"));
      if (!status.ok()) return At(layers[i], i, status);
      references = std::move(given);
    }
    outputs->insert(outputs->end(), references.begin(), references.end());
    return absl::OkStatus();
  }

  absl::Status ReadGraph(const KerasJson& config, const Scope& scope, const References& inputs,
                         References* outputs) {
    const KerasJson& layers = ListAt(config, "layers");
    const KerasCallNumbers numbers(layers);
    if (!scope.top_layer.empty()) MILLRACE_RETURN_IF_ERROR(BindInputs(config, scope, inputs));
    const References groups = GroupNames(layers);
    for (size_t i = 0; i < layers.size(); ++i) {
      if (IsKerasInputLayer(layers[i])) continue;
      const absl::Status status = ReadCalls(layers[i], groups[i], numbers, scope);
      if (!status.ok()) return At(layers[i], i, status);
    }
    const KerasJson& listed = ValueAt(config, "output_layers");
    if (listed.is_object()) return KerasFieldError("config.output_layers", listed, "a list");
    const auto tensors = ParseKerasTensors(ListAt(config, "output_layers"));
    if (!tensors.ok()) return Prefixed("config.output_layers: ", tensors.status());
    if (tensors->empty()) {
      return InvalidGraph("config.output_layers: none; must be at least one");
    }
    for (const KerasTensor& tensor : *tensors) {
      outputs->push_back(scope.Symbol(numbers.InOutputs(tensor)));
      if (scope.top_layer.empty()) graph_.output_names.push_back(tensor.layer);
    }
    return absl::OkStatus();
  }

  // The InputLayers of a model within the model stand for what it was called with.
  absl::Status BindInputs(const KerasJson& config, const Scope& scope, const References& inputs) {
    const auto tensors = ParseKerasTensors(ListAt(config, "input_layers"));
    if (!tensors.ok()) return Prefixed("config.input_layers: ", tensors.status());
    if (tensors->size() != inputs.size()) {
      return InvalidGraph(absl::StrCat("config.input_layers: ", tensors->size(),
                                       "; must be as many as it is called with, ", inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      tensors_[scope.Symbol({(*tensors)[i].layer})] = inputs[i];
    }
    return absl::OkStatus();
  }

  absl::Status ReadCalls(const KerasJson& json, const std::string& group,
                         const KerasCallNumbers& numbers, const Scope& scope) {
    const KerasJson& calls = ListAt(json, "inbound_nodes");
    if (calls.empty()) return InvalidGraph("inbound_nodes: none; must be at least one call");
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto parsed = ParseKerasCall(calls[i]);
      if (!parsed.ok()) {
        return Prefixed(absl::StrCat("inbound_nodes[", i, "]: "), parsed.status());
      }
      Call call = {i, {}, parsed->training.has_value() ? parsed->training : scope.training};
      for (const KerasTensor& tensor : parsed->tensors) {
        call.inputs.push_back(scope.Symbol(numbers.InCall(tensor)));
      }
      References outputs;
      MILLRACE_RETURN_IF_ERROR(ReadLayer(json, group, scope, call, &outputs));
      for (size_t output = 0; output < outputs.size(); ++output) {
        tensors_[scope.Symbol({KerasLayerName(json), i, output})] = outputs[output];
      }
    }
    return absl::OkStatus();
  }

  // Of a layer, or of a model in its place.
  struct Call {
    size_t number = 0;
    References inputs;
    absl::optional<bool> training;

    bool IsFirst(const Scope& scope) const { return scope.prefix == scope.owner && number == 0; }
  };

  absl::Status ReadLayer(const KerasJson& json, const std::string& group, const Scope& scope,
                         const Call& call, References* outputs) {
    const KerasJson* config = FindObject(json, "config");
    if (config == nullptr) return InvalidGraph("config: not there; must be an object");
    if (++calls_ > kMaxLayers) {
      return InvalidGraph(absl::StrCat("the model has more than ", kMaxLayers,
                                       " calls of layers; must be at most that"));
    }
    const std::string name = KerasLayerName(json);
    if (!IsKerasModelClass(KerasClassName(json))) {
      return AddLayer(json, absl::StrCat(scope.group, group), scope, call, outputs);
    }
    Scope inner;
    inner.prefix = absl::StrCat(scope.prefix, CallName(name, call.number), ".");
    inner.owner = absl::StrCat(scope.owner, name, ".");
    inner.group = absl::StrCat(scope.group, group, "/layers/");
    inner.top_layer = scope.top_layer.empty() ? name : scope.top_layer;
    inner.training = call.training;
    return ReadModel(json, inner, call.inputs, outputs);
  }

  absl::Status AddLayer(const KerasJson& json, const std::string& group, const Scope& scope,
                        const Call& call, References* outputs) {
    const std::string name = KerasLayerName(json);
    std::vector<std::string> left_out;
    MILLRACE_ASSIGN_OR_RETURN(
        std::vector<LayerSpec> layers,
        ConvertKerasLayer(KerasClassName(json), json["config"],
                          {RankOfInput(json, scope, call), values_given_ ? &left_out : nullptr}));
    const bool first = call.IsFirst(scope);
    References taken = call.inputs;
    for (LayerSpec& layer : layers) {
      MILLRACE_RETURN_IF_ERROR(ApplyTraining(call.training, &layer));
      const std::string whole_name = absl::StrCat(name, layer.name());
      layer.set_name(absl::StrCat(scope.prefix, CallName(whole_name, call.number)));
      if (!first) {
        layer.set_variables_of(absl::StrCat(scope.owner, whole_name));
        layer.clear_trainable();
      }
      MILLRACE_RETURN_IF_ERROR(CheckLayerSpec(layer, "converted"));
      layer.mutable_inputs()->Assign(taken.begin(), taken.end());
      taken = {layer.name()};
      ranks_.Add(layer);
    }
    outputs->push_back(layers.back().name());
    if (first) NoteVariables(group, scope, name, layers, left_out);
    for (LayerSpec& layer : layers) graph_.layers.push_back(std::move(layer));
    return absl::OkStatus();
  }

  size_t RankOfInput(const KerasJson& json, const Scope& scope, const Call& call) {
    size_t rank = call.inputs.size() == 1 ? ranks_.Of(call.inputs[0]) : 0;
    if (rank == 0) rank = KerasInputRank(json);
    if (rank > 0 || call.IsFirst(scope)) return rank;
    // Layers that ask give what they take; called again, they take as many dimensions as at first.
    return ranks_.Of(absl::StrCat(scope.owner, KerasLayerName(json)));
  }

  void NoteVariables(const std::string& group, const Scope& scope, const std::string& name,
                     const std::vector<LayerSpec>& layers,
                     const std::vector<std::string>& left_out) {
    const std::string whole_name = absl::StrCat(scope.prefix, name);
    for (const std::string& one : left_out) {
      graph_.left_out.push_back(absl::StrCat("'", PrintableName(whole_name), "': ", one));
    }
    std::vector<KerasVariable> variables = KerasVariablesOf(layers);
    if (variables.empty()) return;
    graph_.variables.push_back({whole_name, group, scope.top_layer.empty() ? name : scope.top_layer,
                                std::move(variables)});
  }

  // References become names.
  absl::Status Finish(const References& outputs) {
    if (graph_.layers.empty()) {
      return InvalidGraph(
          absl::StrCat(file_name_, ": config.layers: none; must be at least one layer"));
    }
    std::set<std::string> names;
    for (LayerSpec& layer : graph_.layers) {
      MILLRACE_RETURN_IF_ERROR(ResolveInputs(&layer));
      if (layer.name().empty() || names.insert(layer.name()).second) continue;
      return InvalidGraph(absl::StrCat(file_name_, ": two layers are called '",
                                       PrintableName(layer.name()),
                                       "' when it is converted; must be one"));
    }
    for (const std::string& reference : outputs) {
      graph_.outputs.push_back(Resolve(reference));
      const auto is_it = [&](const LayerSpec& one) { return one.name() == graph_.outputs.back(); };
      if (std::any_of(graph_.layers.begin(), graph_.layers.end(), is_it)) continue;
      return InvalidGraph(absl::StrCat(file_name_, ": config.output_layers: '",
                                       LayerOfSymbol(reference), "'; must be the name of a layer"));
    }
    if (graph_.output_names.empty()) graph_.output_names = graph_.outputs;
    return absl::OkStatus();
  }

  absl::Status ResolveInputs(LayerSpec* layer) const {
    for (std::string& input : *layer->mutable_inputs()) {
      const std::string reference = std::exchange(input, Resolve(input));
      if (!IsSymbol(input)) continue;
      return InvalidGraph(absl::StrCat(file_name_, ": '", PrintableName(layer->name()),
                                       "' takes an output of '", LayerOfSymbol(reference),
                                       "'; must be a layer that has one"));
    }
    return absl::OkStatus();
  }

  // A symbol: nothing is known of it.
  std::string Resolve(std::string reference) const {
    for (size_t step = 0; step <= tensors_.size() && IsSymbol(reference); ++step) {
      const auto found = tensors_.find(reference);
      if (found == tensors_.end()) return reference;
      reference = found->second;
    }
    return reference;
  }

  void LeaveOutInputsOfChain() {
    std::string before = graph_.only_feature;
    for (const LayerSpec& layer : graph_.layers) {
      if (layer.inputs_size() != 1 || layer.inputs(0) != before) return;
      before = layer.name();
    }
    for (LayerSpec& layer : graph_.layers) layer.clear_inputs();
  }

  static absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
    return InvalidGraph(absl::StrCat(prefix, status.message()));
  }

  static absl::Status At(const KerasJson& layer, size_t index, const absl::Status& status) {
    return Prefixed(
        absl::StrCat("config.layers[", index, "] '", PrintableName(KerasLayerName(layer)), "': "),
        status);
  }

  const std::string& file_name_;
  const bool values_given_;
  KerasGraph graph_;
  int calls_ = 0;
  std::map<std::string, std::string> tensors_;  // Symbols: what they stand for.
  KerasRanks ranks_{[this](const std::string& reference) { return Resolve(reference); }};
};

}  // namespace

absl::StatusOr<KerasGraph> ReadKerasGraph(const KerasJson& model, const std::string& file_name,
                                          bool values_given) {
  return GraphReader(file_name, values_given).Run(model);
}

}  // namespace millrace::client
