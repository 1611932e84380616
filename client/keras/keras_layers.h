// Keras's layers one by one. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_LAYERS_H_
#define MILLRACE_CLIENT_KERAS_KERAS_LAYERS_H_

#include <string>

#include "absl/status/status.h"
#include "client/keras/keras_config.h"
#include "protos/model.pb.h"

namespace millrace::client {

// Fills in the kind of `layer` for a layer of Keras's class. INVALID_ARGUMENT: the class is none
// that can be converted, or its `config` has something that cannot; the message does not name the
// layer.
absl::Status ConvertKerasLayer(const std::string& class_name, const KerasJson& config,
                               LayerSpec* layer);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_LAYERS_H_
