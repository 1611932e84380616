// The seam between models and what they run on. `cpu` (oneDNN) is always there; others can be added
// beside it without touching the models.
#ifndef MILLRACE_WORKER_DEVICE_DEVICE_H_
#define MILLRACE_WORKER_DEVICE_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  // "cpu".
  virtual const std::string& name() const = 0;

  // Compiles a plan, whose shapes are all checked, for batches of up to `max_batch` examples.
  virtual absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                         size_t max_batch) = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_DEVICE_H_
