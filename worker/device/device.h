// The seam between models and what they run on. `cpu` (oneDNN) is always there; others can be added
// beside it without touching the models.
#ifndef MILLRACE_WORKER_DEVICE_DEVICE_H_
#define MILLRACE_WORKER_DEVICE_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/device_meter.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  // "cpu", "cuda:0", "cuda:0,1".
  virtual const std::string& name() const = 0;

  // The same for people, with what there is to say: "cpu/2 (avx2)", "cuda:0 (NVIDIA H200,
  // sm_90, CUDA 13.1)". Printable; the coordinator is told the first 100 characters of it.
  virtual std::string description() const = 0;

  // Null: nothing is measured.
  virtual const DeviceMeter* meter() const { return nullptr; }

  // Waits for `patience` at most until no thread is in a call of it. False: one still is.
  virtual bool AwaitCalls(absl::Duration /*patience*/) { return true; }

  // Compiles a plan, whose shapes are all checked, for batches of up to these sizes.
  // INVALID_ARGUMENT: no batches to train on. RESOURCE_EXHAUSTED: too little memory for them.
  // UNAVAILABLE: the device is lost, or has not made the model in time. Blocks, on a GPU for
  // minutes at most.
  virtual absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                         const BatchSizes& batches) = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_DEVICE_H_
