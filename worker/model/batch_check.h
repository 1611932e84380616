// Whether a batch is one that a compiled model takes, whatever device it runs on.
#ifndef MILLRACE_WORKER_MODEL_BATCH_CHECK_H_
#define MILLRACE_WORKER_MODEL_BATCH_CHECK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "worker/input/batch.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// INVALID_ARGUMENT: an id that an embedding has no row for, or a label that a loss does not take.
// REQUIRES: the batch has 1 to `largest` examples, whose features are as the plan's.
absl::Status CheckBatch(const ModelPlan& plan, const Batch& batch, size_t largest);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_BATCH_CHECK_H_
