#include "worker/training/gradient_pool.h"

#include <utility>

#include "common/mutex.h"

namespace millrace::worker {

struct GradientPool::Shelf {
  explicit Shelf(size_t shelf_capacity) : capacity(shelf_capacity) {}

  void Put(std::unique_ptr<GradientSet> set) ABSL_LOCKS_EXCLUDED(mutex) {
    MutexLock lock(&mutex);
    if (sets.size() < capacity) sets.push_back(std::move(set));
  }

  const size_t capacity;
  Mutex mutex;
  std::vector<std::unique_ptr<GradientSet>> sets ABSL_GUARDED_BY(mutex);
};

GradientPool::GradientPool(std::vector<uint64_t> variable_sizes, size_t capacity,
                           std::shared_ptr<HostMemory> memory)
    : variable_sizes_(std::move(variable_sizes)),
      memory_(std::move(memory)),
      shelf_(std::make_shared<Shelf>(capacity)) {}

std::shared_ptr<GradientSet> GradientPool::Take() {
  std::unique_ptr<GradientSet> set;
  {
    MutexLock lock(&shelf_->mutex);
    if (!shelf_->sets.empty()) {
      set = std::move(shelf_->sets.back());
      shelf_->sets.pop_back();
    }
  }
  if (set == nullptr) set = std::make_unique<GradientSet>(variable_sizes_, memory_);
  return std::shared_ptr<GradientSet>(set.release(), [shelf = shelf_](GradientSet* used) {
    shelf->Put(std::unique_ptr<GradientSet>(used));
  });
}

}  // namespace millrace::worker
