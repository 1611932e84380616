// What a person should know of how an optimizer was converted. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_OPTIMIZER_NOTES_H_
#define MILLRACE_CLIENT_KERAS_KERAS_OPTIMIZER_NOTES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/keras/keras_json.h"
#include "protos/optimizer.pb.h"

namespace millrace::client {

// Of `optimizer`, which ConvertKerasOptimizer made `spec` of: a sentence each.
std::vector<std::string> NotesOfKerasOptimizer(const KerasJson& optimizer,
                                               const OptimizerSpec& spec);

// Of one that it refused: what the job lacks now, and what can be done.
std::string NoteOfRefusedKerasOptimizer(const KerasJson& optimizer, const absl::Status& why,
                                        bool in_keras2_hdf5);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_OPTIMIZER_NOTES_H_
