// Models that Keras has written as JSON (Model.to_json of Keras 2 and 3), as ModelSpecs.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_MODEL_H_
#define MILLRACE_CLIENT_KERAS_KERAS_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/model.pb.h"

namespace millrace::client {

struct KerasModel {
  ModelSpec model;  // Without a loss: JSON has none.
  // What a person should know of what was changed or left out: a sentence each.
  std::vector<std::string> notes;
};

// Converts a Sequential or a Functional model. Names of layers stay as they are, so that weights
// find their variables by name; a layer that is called several times becomes as many, which share
// their variables. Inputs become features of the data with the names of their InputLayers; a model
// with one input takes the data's only feature. A last softmax or sigmoid is left out, since losses
// take logits.
// INVALID_ARGUMENT: "FILE:LINE:COLUMN: ..." where the text is no JSON; otherwise "FILE:
// config.layers[3] 'lambda': ..." with what cannot be converted: a class of layers that we have not
// got, a field or a value that changes what a layer computes.
absl::StatusOr<KerasModel> ConvertKerasModel(absl::string_view json, const std::string& file_name);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_MODEL_H_
