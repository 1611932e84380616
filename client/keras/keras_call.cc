#include "client/keras/keras_call.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

constexpr size_t kNoCall = ~size_t{0};

absl::Status NoTensor(const KerasJson& json) {
  return absl::InvalidArgumentError(
      absl::StrCat(ShowJson(json), "; must be outputs of layers, and nothing else"));
}

// ["conv", 0, 0], or with the call's arguments behind it.
bool IsHistory(const KerasJson& json) {
  return json.is_array() && json.size() >= 3 && json[0].is_string() &&
         json[1].is_number_unsigned() && json[2].is_number_unsigned();
}

KerasTensor ToTensor(const KerasJson& history) {
  return {history[0].get<std::string>(), history[1].get<size_t>(), history[2].get<size_t>()};
}

absl::Status TakeArguments(const KerasJson& arguments, KerasCall* call) {
  if (!arguments.is_object()) return arguments.is_null() ? absl::OkStatus() : NoTensor(arguments);
  for (const auto& [name, value] : arguments.items()) {
    if (value.is_null()) continue;
    if (name != "training" || !value.is_boolean()) {
      return absl::InvalidArgumentError(absl::StrCat(PrintableName(name), ": ", ShowJson(value),
                                                     "; must be left out to be converted"));
    }
    call->training = value.get<bool>();
  }
  return absl::OkStatus();
}

absl::Status Collect(const KerasJson& json, KerasCall* call) {
  if (IsHistory(json)) {
    call->tensors.push_back(ToTensor(json));
    return json.size() > 3 ? TakeArguments(json[3], call) : absl::OkStatus();
  }
  if (const KerasJson* config = FindObject(json, "config");
      config != nullptr && IsHistory(ValueAt(*config, "keras_history"))) {
    call->tensors.push_back(ToTensor((*config)["keras_history"]));
    return absl::OkStatus();
  }
  if (json.is_object() && json.contains("args")) {
    // Keras 3 writes down a `training` that whoever calls the model overrules.
    KerasCall ignored;
    MILLRACE_RETURN_IF_ERROR(TakeArguments(ValueAt(json, "kwargs"), &ignored));
    return Collect(json["args"], call);
  }
  if (!json.is_array()) return NoTensor(json);
  for (const KerasJson& one : json) MILLRACE_RETURN_IF_ERROR(Collect(one, call));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KerasCall> ParseKerasCall(const KerasJson& json) {
  KerasCall call;
  MILLRACE_RETURN_IF_ERROR(Collect(json, &call));
  if (call.tensors.empty()) return NoTensor(json);
  return call;
}

absl::StatusOr<std::vector<KerasTensor>> ParseKerasTensors(const KerasJson& json) {
  KerasCall call;
  MILLRACE_RETURN_IF_ERROR(Collect(json, &call));
  return std::move(call.tensors);
}

KerasCallNumbers::KerasCallNumbers(const KerasJson& layers) {
  const bool keras3 = std::any_of(layers.begin(), layers.end(), [](const KerasJson& layer) {
    const KerasJson& calls = ListAt(layer, "inbound_nodes");
    return !calls.empty() && calls[0].is_object();
  });
  for (const KerasJson& layer : layers) {
    const std::string class_name = KerasClassName(layer);
    if (!IsKerasModelClass(class_name)) continue;
    const KerasJson& inner = ListAt(ValueAt(layer, "config"), "layers");
    const bool has_input = !inner.empty() && IsKerasInputLayer(inner[0]);
    if (keras3 ? class_name == "Sequential" : !has_input) continue;
    in_outputs_.insert(KerasLayerName(layer));
    if (!keras3) in_calls_.insert(KerasLayerName(layer));
  }
}

KerasTensor KerasCallNumbers::Less(const std::set<std::string>& names, KerasTensor tensor) {
  if (names.count(tensor.layer) > 0) tensor.call = tensor.call == 0 ? kNoCall : tensor.call - 1;
  return tensor;
}

bool IsKerasModelClass(const std::string& class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

bool IsKerasInputLayer(const KerasJson& layer) { return KerasClassName(layer) == "InputLayer"; }

std::string KerasLayerName(const KerasJson& layer) {
  return TextAt(ValueAt(layer, "config"), "name");
}

}  // namespace millrace::client
