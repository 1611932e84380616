// Whether a model fits into this machine.
#ifndef MILLRACE_WORKER_DEVICE_CPU_MEMORY_NEED_H_
#define MILLRACE_WORKER_DEVICE_CPU_MEMORY_NEED_H_

#include <cstddef>

#include "absl/status/status.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Bytes for a model's variables and for what a training step over `batch` examples keeps. A double,
// since it may be more than any machine has.
double MemoryNeed(const ModelPlan& plan, size_t batch);

// RESOURCE_EXHAUSTED: more than the machine's memory; says how much both are.
absl::Status CheckMemory(const ModelPlan& plan, size_t batch);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_MEMORY_NEED_H_
