#include <string>

#include "client/keras/keras_kinds.h"
#include "client/keras/keras_values.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

void SetLeakyRelu(double negative_slope, LayerSpec* layer) {
  layer->mutable_activation()->set_function(LEAKY_RELU);
  layer->mutable_activation()->set_negative_slope(ShortNumber(negative_slope));
}

}  // namespace

absl::Status ConvertActivation(KerasConfig* config, LayerSpecs* layers) {
  MILLRACE_ASSIGN_OR_RETURN(const Activation activation, TakeActivation(config, "activation"));
  LayerSpec& layer = layers->emplace_back();
  layer.mutable_activation()->set_function(activation);
  if (activation == LEAKY_RELU) SetLeakyRelu(kKerasLeakyReluSlope, &layer);
  return absl::OkStatus();
}

absl::Status ConvertRelu(KerasConfig* config, LayerSpecs* layers) {
  LayerSpec& layer = layers->emplace_back();
  MILLRACE_ASSIGN_OR_RETURN(const double slope, config->TakeNumber("negative_slope", 0));
  const KerasJson& max_value = config->Take("max_value");
  if (slope != 0) {
    if (!max_value.is_null()) {
      return KerasFieldError("max_value", max_value,
                             "left out to be converted, with a negative_slope");
    }
    SetLeakyRelu(slope, &layer);
  } else {
    if (!max_value.is_null() && max_value != 6) {
      return KerasFieldError("max_value", max_value, "6 or left out to be converted");
    }
    layer.mutable_activation()->set_function(max_value.is_null() ? RELU : RELU6);
  }
  return config->Expect("threshold", {0.0});
}

absl::Status ConvertLeakyRelu(KerasConfig* config, LayerSpecs* layers) {
  // Keras 2 calls it alpha.
  MILLRACE_ASSIGN_OR_RETURN(const double alpha, config->TakeNumber("alpha", 0.3));
  MILLRACE_ASSIGN_OR_RETURN(const double slope, config->TakeNumber("negative_slope", alpha));
  SetLeakyRelu(slope, &layers->emplace_back());
  return absl::OkStatus();
}

absl::Status ConvertElu(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_activation()->set_function(ELU);
  return config->Expect("alpha", {1.0});
}

absl::Status ConvertSoftmax(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_activation()->set_function(SOFTMAX);
  return config->ExpectLastAxis("axis");
}

absl::Status ConvertRescaling(KerasConfig* config, LayerSpecs* layers) {
  Rescaling* rescaling = layers->emplace_back().mutable_rescaling();
  MILLRACE_ASSIGN_OR_RETURN(const double scale, config->TakeNumber("scale", 1));
  rescaling->set_scale(scale);
  MILLRACE_ASSIGN_OR_RETURN(const double offset, config->TakeNumber("offset", 0));
  rescaling->set_offset(offset);
  return absl::OkStatus();
}

absl::Status ConvertDropout(KerasConfig* config, LayerSpecs* layers) {
  MILLRACE_ASSIGN_OR_RETURN(const double rate, config->TakeNumber("rate"));
  layers->emplace_back().mutable_dropout()->set_rate(rate);
  return absl::OkStatus();
}

}  // namespace millrace::client
