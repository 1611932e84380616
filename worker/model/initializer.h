// Keras's initialisers, resolved into distributions.
#ifndef MILLRACE_WORKER_MODEL_INITIALIZER_H_
#define MILLRACE_WORKER_MODEL_INITIALIZER_H_

#include "absl/status/statusor.h"
#include "protos/job.pb.h"
#include "protos/model.pb.h"

namespace millrace::worker {

// How many values meet in one unit, forwards and backwards.
struct Fans {
  double in = 1;
  double out = 1;
};

// INVALID_ARGUMENT: `initializer` is unset or not one of the enum; the message starts with "is".
absl::StatusOr<InitialValue> ResolveInitializer(Initializer initializer, const Fans& fans);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_INITIALIZER_H_
