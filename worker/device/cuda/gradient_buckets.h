// Which gradients leave a GPU together.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_GRADIENT_BUCKETS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <vector>

#include "worker/device/cuda/host_variables.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Gradients that stand one after the other (VariablePlaces), and are final after the same backward
// step. Their order is that of the steps.
struct GradientBucket {
  std::vector<size_t> variables;
  size_t begin = 0;  // Where they stand, in bytes; from here
  size_t end = 0;    // to here.
  size_t steps = 0;  // Final once so many backward steps are done.

  size_t bytes() const { return end - begin; }
};

// About kMostBuckets of equal size, as far as the layers allow: each is worth its copies, and all
// but the last leave while the pass goes on. The last one's steps are all of the walk. `places` are
// those of several replicas.
std::vector<GradientBucket> PlanBuckets(const Walk& walk, const VariablePlaces& places);

inline constexpr size_t kMostBuckets = 8;

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_GRADIENT_BUCKETS_H_
