// Models that Keras has written as JSON (Model.to_json of Keras 2 and 3, and what is in its files),
// as ModelSpecs.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_MODEL_H_
#define MILLRACE_CLIENT_KERAS_KERAS_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "client/keras/keras_variables.h"
#include "protos/model.pb.h"
#include "protos/optimizer.pb.h"

namespace millrace::client {

struct KerasModel {
  ModelSpec model;  // With losses and metrics where the JSON has them, and they are ours.
  absl::optional<OptimizerSpec> optimizer;
  // Of the layers, in their order: where Keras's files have their values.
  std::vector<KerasLayerVariables> variables;
  // What a person should know of what was changed or left out: a sentence each.
  std::vector<std::string> notes;
};

struct KerasModelOptions {
  // JSON that tells how the model was compiled, where it does not itself. Empty: none.
  std::string training;
  bool in_keras2_hdf5 = false;  // That JSON is of an .h5 file that Keras 2 wrote.
  // The values of its variables are converted too: initializers that cannot be are left out.
  bool values_given = false;
};

// Converts a Sequential or a Functional model. Names of layers stay as they are, so that weights
// find their variables by name; a layer that is called several times becomes as many, which share
// their variables; a model within the model becomes its layers, "MODEL.LAYER". Inputs become
// features of the data with the names of their InputLayers; a model with one input takes the data's
// only feature. A last softmax or sigmoid is left out where the loss takes logits, or is not known.
// INVALID_ARGUMENT: "FILE:LINE:COLUMN: ..." where the text is no JSON; otherwise "FILE:
// config.layers[3] 'lambda': ..." with what cannot be converted: a class of layers that we have not
// got, a field or a value that changes what a layer computes, or that no job may have.
absl::StatusOr<KerasModel> ConvertKerasModel(absl::string_view json, const std::string& file_name,
                                             const KerasModelOptions& options = {});

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_MODEL_H_
