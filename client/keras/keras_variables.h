// The variables of converted layers, as Keras keeps them. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_VARIABLES_H_
#define MILLRACE_CLIENT_KERAS_KERAS_VARIABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "protos/model.pb.h"

namespace millrace::client {

struct KerasVariable {
  std::string name;             // Ours: "conv/kernel".
  std::vector<uint64_t> shape;  // 0: any; what comes in is not known here.
  bool trainable = true;        // To Keras, which keeps those that are before the others.
};

// Of a layer of Keras's.
struct KerasLayerVariables {
  std::string layer;      // Its name, with those of the models that it is in: "backbone.conv".
  std::string group;      // Where Keras 3's files have them: "layers/functional/layers/conv2d".
  std::string top_layer;  // The name of the layer of the whole model that it is in, or is.
  std::vector<KerasVariable> variables;  // In Keras's order.
};

// Of the layers that ConvertKerasLayer made of one, in Keras's order.
std::vector<KerasVariable> KerasVariablesOf(absl::Span<const LayerSpec> layers);

// "conv2d" for "Conv2D", "separable_conv2d", "re_lu": as Keras 3's files call layers.
std::string KerasSnakeCase(const std::string& class_name);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_VARIABLES_H_
