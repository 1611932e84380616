// Layers that nothing needs, and those that need themselves. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_PRUNE_H_
#define MILLRACE_CLIENT_KERAS_KERAS_PRUNE_H_

#include "absl/status/status.h"
#include "client/keras/keras_graph.h"

namespace millrace::client {

// A model within the model may have outputs that nobody takes, at some of its calls: leaves out the
// layers that no output of the whole model follows from. Where such a layer has the variables of
// others, the first of these takes its name and its place. REQUIRES: inputs and outputs are names.
void LeaveOutUnusedLayers(KerasGraph* graph);

// INVALID_ARGUMENT: "'conv' takes its own output in the end; must ...". REQUIRES: as above.
absl::Status CheckNoCircle(const KerasGraph& graph);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_PRUNE_H_
