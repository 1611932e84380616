// Memory for gradients that is used again from step to step.
#ifndef MILLRACE_WORKER_TRAINING_GRADIENT_POOL_H_
#define MILLRACE_WORKER_TRAINING_GRADIENT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/model/gradient_set.h"
#include "worker/model/host_memory.h"

namespace millrace::worker {

// Thread-safe. May be destroyed before the sets that it gave out.
class GradientPool {
 public:
  // Keeps up to `capacity` sets that are not in use. `memory`: GradientSet's.
  GradientPool(std::vector<uint64_t> variable_sizes, size_t capacity,
               std::shared_ptr<HostMemory> memory = nullptr);

  // A set that nobody else holds: a used one if there is one, else a new one. It goes back when the
  // last reference does: whoever sends a gradient holds the set until the network is done with it.
  // Throws std::bad_alloc.
  std::shared_ptr<GradientSet> Take();

 private:
  struct Shelf;

  const std::vector<uint64_t> variable_sizes_;
  const std::shared_ptr<HostMemory> memory_;
  const std::shared_ptr<Shelf> shelf_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_GRADIENT_POOL_H_
