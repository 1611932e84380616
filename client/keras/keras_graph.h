// The layers of a Keras model as a list: models within it flattened, calls resolved. Internal to
// client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_GRAPH_H_
#define MILLRACE_CLIENT_KERAS_KERAS_GRAPH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/keras/keras_json.h"
#include "client/keras/keras_variables.h"
#include "protos/model.pb.h"

namespace millrace::client {

inline constexpr char kKerasOnlyFeature[] = "features";

struct KerasGraph {
  // A layer of a model "backbone" within the model is called "backbone.conv"; the second call of
  // "conv" is "conv_call1", with its variables. Chains do not name their inputs.
  std::vector<LayerSpec> layers;
  // What layers call the input of a model with one: kKerasOnlyFeature, if no layer is called that.
  std::string only_feature;
  // Names of the InputLayers. Empty: a Sequential model.
  std::vector<std::string> inputs;
  // Names of layers; and what Keras calls these outputs. At least one.
  std::vector<std::string> outputs;
  std::vector<std::string> output_names;
  std::vector<KerasLayerVariables> variables;
  // "'conv': kernel_initializer: ...": what cannot be converted and makes no difference.
  std::vector<std::string> left_out;
};

// `values_given`: initializers that cannot be converted are left out.
// INVALID_ARGUMENT: as ConvertKerasModel.
absl::StatusOr<KerasGraph> ReadKerasGraph(const KerasJson& model, const std::string& file_name,
                                          bool values_given);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_GRAPH_H_
