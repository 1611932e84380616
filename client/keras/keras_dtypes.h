// In which floats Keras computed. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_DTYPES_H_
#define MILLRACE_CLIENT_KERAS_KERAS_DTYPES_H_

#include <set>
#include <string>

#include "client/keras/keras_json.h"

namespace millrace::client {

// The policies of the layers of a model, and of models within it, but for "float32":
// "mixed_bfloat16".
std::set<std::string> KerasFloatPolicies(const KerasJson& model);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_DTYPES_H_
