// Memory for gradients that is used again from step to step.
#ifndef MILLRACE_WORKER_TRAINING_GRADIENT_POOL_H_
#define MILLRACE_WORKER_TRAINING_GRADIENT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "absl/types/span.h"

namespace millrace::worker {

// What a step pushes: uninitialised floats for each variable, aligned to cache lines.
class GradientSet {
 public:
  // Of a variable that is not pushed, 0.
  explicit GradientSet(const std::vector<uint64_t>& variable_sizes);

  absl::Span<float> variable(size_t index) {
    return absl::MakeSpan(buffers_[index].get(), sizes_[index]);
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* buffer) const { ::operator delete(buffer, kAlignment); }
  };

  std::vector<uint64_t> sizes_;
  std::vector<std::unique_ptr<float, Free>> buffers_;
};

// Thread-safe. May be destroyed before the sets that it gave out.
class GradientPool {
 public:
  // Keeps up to `capacity` sets that are not in use.
  GradientPool(std::vector<uint64_t> variable_sizes, size_t capacity);

  // A set that nobody else holds: a used one if there is one, else a new one. It goes back when the
  // last reference does: whoever sends a gradient holds the set until the network is done with it.
  std::shared_ptr<GradientSet> Take();

 private:
  struct Shelf;

  const std::vector<uint64_t> variable_sizes_;
  const std::shared_ptr<Shelf> shelf_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_GRADIENT_POOL_H_
