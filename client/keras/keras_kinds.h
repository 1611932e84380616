// The conversions of keras_layers.cc, by kinds. Each takes the fields of its class and adds layers;
// what no conversion takes, its caller finds. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_KINDS_H_
#define MILLRACE_CLIENT_KERAS_KERAS_KINDS_H_

#include <vector>

#include "absl/status/status.h"
#include "client/keras/keras_config.h"
#include "protos/model.pb.h"

namespace millrace::client {

using LayerSpecs = std::vector<LayerSpec>;

// keras_convolutions.cc
absl::Status ConvertDense(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertConv1D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertConv2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertDepthwiseConv2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertSeparableConv2D(KerasConfig* config, LayerSpecs* layers);

// keras_pooling.cc
absl::Status ConvertMaxPooling2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertAveragePooling2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertMaxPooling1D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertAveragePooling1D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertGlobalAveragePooling2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertGlobalMaxPooling2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertGlobalAveragePooling1D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertGlobalMaxPooling1D(KerasConfig* config, LayerSpecs* layers);

// keras_normalizations.cc
absl::Status ConvertBatchNormalization(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertLayerNormalization(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertEmbedding(KerasConfig* config, LayerSpecs* layers);

// keras_shapes.cc: what moves values, or takes several inputs.
absl::Status ConvertFlatten(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertReshape(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertPermute(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertZeroPadding2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertUpSampling2D(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertConcatenate(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertAdd(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertSubtract(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertMultiply(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertAverage(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertMaximum(KerasConfig* config, LayerSpecs* layers);

// keras_activations.cc: what computes each value from itself.
absl::Status ConvertActivation(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertRelu(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertLeakyRelu(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertElu(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertSoftmax(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertRescaling(KerasConfig* config, LayerSpecs* layers);
absl::Status ConvertDropout(KerasConfig* config, LayerSpecs* layers);

// The negative slope of Keras's function leaky_relu, which is not that of the layer.
inline constexpr double kKerasLeakyReluSlope = 0.2;

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_KINDS_H_
