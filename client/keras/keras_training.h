// How a Keras model was compiled: optimizer, losses, metrics. Internal to client/keras.
//
// What is not known here is left out with a note: how to train is the user's to say anyway.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_TRAINING_H_
#define MILLRACE_CLIENT_KERAS_KERAS_TRAINING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/keras/keras_json.h"
#include "protos/optimizer.pb.h"
#include "protos/output.pb.h"

namespace millrace::client {

struct KerasOutput {
  OutputSpec spec;           // Without layer and label; no loss: not known.
  bool from_logits = false;  // The loss takes what is before a softmax or sigmoid.
  // Asked for as "accuracy", which Keras takes for one that fits the output's and the label's
  // shape.
  bool accuracy_by_shape = false;
};

struct KerasTraining {
  absl::optional<OptimizerSpec> optimizer;
  std::vector<KerasOutput> outputs;  // As many as there are names, in their order.
  std::vector<std::string> notes;
};

// `compile`: a compile_config of Keras 3, or a training_config of an .h5 file. Empty or null: it
// was not compiled. `output_names`: Keras's. `in_keras2_hdf5`: it is of an .h5 file of Keras 2's.
KerasTraining ReadKerasTraining(const KerasJson& compile,
                                const std::vector<std::string>& output_names,
                                bool in_keras2_hdf5 = false);

// `in_keras2_hdf5`: "Custom>" before the class means nothing. There Keras 2.11 and later put it
// before their own optimizers; elsewhere it is before a user's.
// INVALID_ARGUMENT: "FIELD: VALUE; must be ALLOWED".
absl::StatusOr<OptimizerSpec> ConvertKerasOptimizer(const KerasJson& optimizer,
                                                    bool in_keras2_hdf5 = false);
absl::StatusOr<KerasOutput> ConvertKerasLoss(const KerasJson& loss);
// `from_logits`: the loss's.
absl::StatusOr<MetricSpec> ConvertKerasMetric(const KerasJson& metric, bool from_logits);
// "BINARY_ACCURACY", whether it is named so or as a class or a function.
std::string KerasMetricEnumName(const KerasJson& metric);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_TRAINING_H_
