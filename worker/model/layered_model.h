// Models made of ModelSpec layers.
#ifndef MILLRACE_WORKER_MODEL_LAYERED_MODEL_H_
#define MILLRACE_WORKER_MODEL_LAYERED_MODEL_H_

#include <memory>

#include "worker/device/device.h"
#include "worker/model/model.h"

namespace millrace::worker {

// Plans a job's model, checks it against both sets of examples and compiles it for `device`, with
// room for the job's batches. The factory is thread-safe. INVALID_ARGUMENT: the model or the
// data do not fit, by path; other statuses: see Device::Compile.
ModelFactory LayeredModelFactory(std::shared_ptr<Device> device);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYERED_MODEL_H_
