// Keras's layers one by one. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_LAYERS_H_
#define MILLRACE_CLIENT_KERAS_KERAS_LAYERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/keras/keras_config.h"
#include "protos/model.pb.h"

namespace millrace::client {

// The layers that compute what a layer of Keras's class does: mostly one, otherwise a chain. Their
// names are what is put behind the layer's own: "" for the one whose variables are called as in
// Keras. INVALID_ARGUMENT: the class is none that can be converted, or its `config` has something
// that cannot; the message does not name the layer.
absl::StatusOr<std::vector<LayerSpec>> ConvertKerasLayer(const std::string& class_name,
                                                         const KerasJson& config,
                                                         const KerasSurroundings& around);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_LAYERS_H_
