#include "client/keras/keras_layers.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/keras/keras_kinds.h"
#include "client/keras/keras_preparations.h"
#include "common/printable.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

struct Conversion {
  const char* class_name;
  absl::Status (*convert)(KerasConfig*, LayerSpecs*);
};

constexpr Conversion kConversions[] = {
    {"Activation", ConvertActivation},
    {"Add", ConvertAdd},
    {"Average", ConvertAverage},
    {"AveragePooling1D", ConvertAveragePooling1D},
    {"AveragePooling2D", ConvertAveragePooling2D},
    {"BatchNormalization", ConvertBatchNormalization},
    {"Concatenate", ConvertConcatenate},
    {"Conv1D", ConvertConv1D},
    {"Conv2D", ConvertConv2D},
    {"Dense", ConvertDense},
    {"DepthwiseConv2D", ConvertDepthwiseConv2D},
    {"Dropout", ConvertDropout},
    {"ELU", ConvertElu},
    {"Embedding", ConvertEmbedding},
    {"Flatten", ConvertFlatten},
    {"GlobalAveragePooling1D", ConvertGlobalAveragePooling1D},
    {"GlobalAveragePooling2D", ConvertGlobalAveragePooling2D},
    {"GlobalMaxPooling1D", ConvertGlobalMaxPooling1D},
    {"GlobalMaxPooling2D", ConvertGlobalMaxPooling2D},
    {"LayerNormalization", ConvertLayerNormalization},
    {"LeakyReLU", ConvertLeakyRelu},
    {"MaxPooling1D", ConvertMaxPooling1D},
    {"MaxPooling2D", ConvertMaxPooling2D},
    {"Maximum", ConvertMaximum},
    {"Multiply", ConvertMultiply},
    {"Permute", ConvertPermute},
    {"ReLU", ConvertRelu},
    {"Rescaling", ConvertRescaling},
    {"Reshape", ConvertReshape},
    {"SeparableConv2D", ConvertSeparableConv2D},
    {"Softmax", ConvertSoftmax},
    {"Subtract", ConvertSubtract},
    {"UpSampling2D", ConvertUpSampling2D},
    {"ZeroPadding2D", ConvertZeroPadding2D},
};

absl::Status UnknownClass(const std::string& class_name) {
  if (const std::string in_place = InPlaceOfPreparation(class_name); !in_place.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its class is ", PrintableName(class_name),
                     ", which prepares data and is no layer here; build the model without it to "
                     "convert it. ",
                     in_place));
  }
  const auto name = [](std::string* out, const Conversion& one) { out->append(one.class_name); };
  return absl::InvalidArgumentError(absl::StrCat(
      "its class is ", PrintableName(class_name), ", which cannot be converted; must be one of ",
      absl::StrJoin(kConversions, ", ", name), ". ", kOwnCodeNeedsAWorker));
}

// Its activation, which becomes LINEAR, where that is one of layers of their own only; LINEAR: it
// may stay.
Activation TakeOwnActivation(LayerSpec* layer) {
  const auto take = [](auto* kind) {
    const Activation activation = kind->activation();
    const bool own = activation == LEAKY_RELU || activation == SILU || activation == GELU ||
                     activation == GELU_TANH;
    if (own) kind->set_activation(LINEAR);
    return own ? activation : LINEAR;
  };
  if (layer->has_dense()) return take(layer->mutable_dense());
  if (layer->has_conv2d()) return take(layer->mutable_conv2d());
  if (layer->has_depthwise_conv2d()) return take(layer->mutable_depthwise_conv2d());
  if (layer->has_conv1d()) return take(layer->mutable_conv1d());
  return LINEAR;
}

void SplitActivation(LayerSpecs* layers) {
  const Activation activation = TakeOwnActivation(&layers->back());
  if (activation == LINEAR) return;
  LayerSpec& after = layers->emplace_back();
  after.set_name("_activation");
  after.mutable_activation()->set_function(activation);
  if (activation == LEAKY_RELU) {
    after.mutable_activation()->set_negative_slope(kKerasLeakyReluSlope);
  }
}

}  // namespace

absl::StatusOr<LayerSpecs> ConvertKerasLayer(const std::string& class_name, const KerasJson& config,
                                             const KerasSurroundings& around) {
  for (const Conversion& conversion : kConversions) {
    if (class_name != conversion.class_name) continue;
    KerasConfig fields(config, around);
    LayerSpecs layers;
    MILLRACE_RETURN_IF_ERROR(conversion.convert(&fields, &layers));
    MILLRACE_RETURN_IF_ERROR(fields.ExpectNothingElse());
    SplitActivation(&layers);
    const KerasJson& trainable = fields.Take("trainable");
    if (trainable.is_boolean() && !trainable.get<bool>()) {
      for (LayerSpec& layer : layers) layer.set_trainable(false);
    }
    return layers;
  }
  return UnknownClass(class_name);
}

}  // namespace millrace::client
