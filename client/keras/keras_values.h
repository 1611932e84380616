// Values that many of Keras's layers have. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_VALUES_H_
#define MILLRACE_CLIENT_KERAS_KERAS_VALUES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/keras/keras_config.h"
#include "protos/model.pb.h"

namespace millrace::client {

// "GlorotUniform" and "glorot_uniform" are the same to Keras: "GLOROT_UNIFORM".
std::string KerasEnumName(absl::string_view name);

// What a field names by its class: "relu", or {"class_name": "ReLU", "config": {...}}. Empty: it
// names none.
std::string KerasClassOf(const KerasJson& value);

// The double that Keras means by one that it has kept as a float: 0.1 for 0.10000000149011612.
double ShortNumber(double value);

// Each takes a field. INVALID_ARGUMENT: it is none of ours.
absl::StatusOr<Activation> TakeActivation(KerasConfig* config, const std::string& field);
absl::StatusOr<Initializer> TakeInitializer(KerasConfig* config, const std::string& field);
absl::StatusOr<Regularizer> TakeRegularizer(KerasConfig* config, const std::string& field);
// `causal`: it may be that.
absl::StatusOr<Padding> TakePadding(KerasConfig* config, bool causal = false);
absl::Status ExpectChannelsLast(KerasConfig* config);

// The fields ROLE_initializer and ROLE_regularizer of a variable, such as "kernel". `fallback`: the
// initializer that ours has where none is set.
struct KerasVariableFields {
  Initializer initializer = INITIALIZER_UNSPECIFIED;  // Unset where it is `fallback`.
  Regularizer regularizer;
  bool has_regularizer = false;
};
absl::StatusOr<KerasVariableFields> TakeVariableFields(KerasConfig* config, const std::string& role,
                                                       Initializer fallback);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_VALUES_H_
