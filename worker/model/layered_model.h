// Models made of ModelSpec layers.
#ifndef MILLRACE_WORKER_MODEL_LAYERED_MODEL_H_
#define MILLRACE_WORKER_MODEL_LAYERED_MODEL_H_

#include <memory>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/input/dataset.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Plans a job's model, checks it against both sets of examples and compiles it for `device`, with
// room for the job's batches. The factory is thread-safe. INVALID_ARGUMENT: the model or the
// data do not fit, by path; other statuses: see Device::Compile.
ModelFactory LayeredModelFactory(std::shared_ptr<Device> device);

// Whether the held-out examples fit the model as the training examples do. INVALID_ARGUMENT:
// "data.evaluate: ..." with what does not fit.
absl::Status CheckEvaluationSet(const ModelPlan& plan, const Dataset& evaluate);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_LAYERED_MODEL_H_
