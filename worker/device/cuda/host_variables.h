// The variables of a model on the host, which all its replicas share.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_HOST_VARIABLES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_HOST_VARIABLES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Where values and gradients stand, each kind one after the other from 0: the same on the host and
// on every GPU. Gradients of one replica are in the order of the variables, as they are where they
// leave from (GradientSink::DeviceBuffer), so that those that leave together are one copy. Those of
// several are in the order in which a backward pass makes them final, and each begins at a multiple
// of 256 bytes for each replica, so that what begins and ends with one is as many equal pieces.
struct VariablePlaces {
  VariablePlaces(const ModelPlan& plan, const Walk& walk, size_t replicas = 1);

  std::vector<size_t> elements;
  std::vector<size_t> values;     // In bytes, as all of these.
  size_t values_bytes = 0;        // Of all of them.
  std::vector<size_t> gradients;  // 0 where there is none.
  size_t gradients_bytes = 0;
  // The variables that have gradients, in the order in which these are final, and how many backward
  // steps are done then.
  std::vector<size_t> order;
  std::vector<size_t> final_after;

 private:
  void PlanOrder(const ModelPlan& plan, const Walk& walk);
  void PlaceGradients(size_t replicas);
};

// Pinned memory for them. Used by one thread at a time.
class HostVariables {
 public:
  // Values and gradients are 0 at first. `places` and `gpu`, one of those that copy from here and
  // to here, must outlive it. Blocks. Throws cuda::Error.
  HostVariables(const VariablePlaces& places, cuda::Gpu* gpu);

  absl::Span<float> value(size_t variable) const;
  absl::Span<float> gradient(size_t variable) const;

  // Of all: from the beginning of the first to the end of the last.
  const void* values() const { return values_.data(); }
  const void* gradients() const { return gradients_.data(); }

 private:
  const VariablePlaces& places_;
  const PinnedMemory values_;
  const PinnedMemory gradients_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_HOST_VARIABLES_H_
