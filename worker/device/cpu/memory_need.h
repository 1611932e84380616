// Whether a job fits into this worker's memory.
#ifndef MILLRACE_WORKER_DEVICE_CPU_MEMORY_NEED_H_
#define MILLRACE_WORKER_DEVICE_CPU_MEMORY_NEED_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Bytes that a compiled model takes for its variables and for the values and gradients of its
// passes.
double ModelBytes(const ModelPlan& plan, const BatchSizes& batches);

// Bytes for the model, for the gradients on their way to the ps servers, and for the batches. Not
// for the data set, nor for what oneDNN takes for its own purposes. A double, since it may be more
// than any machine has.
double MemoryNeed(const ModelPlan& plan, const BatchSizes& batches);

// RESOURCE_EXHAUSTED: more than `limit` bytes; says how much both are, and which field to lower.
absl::Status CheckMemory(const ModelPlan& plan, const BatchSizes& batches, uint64_t limit);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_MEMORY_NEED_H_
