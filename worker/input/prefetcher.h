// Assembles the batches of upcoming steps while the current one is computed.
#ifndef MILLRACE_WORKER_INPUT_PREFETCHER_H_
#define MILLRACE_WORKER_INPUT_PREFETCHER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "common/start_thread.h"
#include "worker/input/batch.h"
#include "worker/input/dataset.h"
#include "worker/input/step_order.h"

namespace millrace::worker {

// Has a thread of its own, which idles when nothing is expected. What it does changes when a batch
// is made, never what is in it. Thread-safe.
class Prefetcher {
 public:
  // What becomes of the examples of a step once they are read: a function of the two alone. Called
  // by several threads at once; may throw std::bad_alloc.
  using Change = std::function<void(uint64_t step, Batch* batch)>;

  // At most `capacity` steps are expected or ready at any time. `dataset` must outlive this object.
  // `change` may be empty. RESOURCE_EXHAUSTED: the system has no thread left.
  // REQUIRES: `order` was made for dataset->size() examples; capacity >= 1.
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Start(
      const Dataset* dataset, const StepOrder& order, size_t capacity, Change change = {},
      const ThreadStarter& start_thread = StartThread);

  // Finishes the batch under way and stops.
  ~Prefetcher();

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // This step will be taken soon; steps are prepared in the order of the calls. Only a hint:
  // ignored when `capacity` others are expected or ready, so expect the nearest steps first, and
  // again later those that did not fit. Does not block.
  void Expect(uint64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

  // The batch of a step, expected or not. Returns it at once where it is ready, else blocks for as
  // long as it takes to assemble this one batch. RESOURCE_EXHAUSTED: there is no memory for it;
  // otherwise as Dataset::Read.
  absl::StatusOr<std::unique_ptr<Batch>> Take(uint64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

  // The batch of a step that is ready, where it stands until the step is taken, when Take returns
  // it, or forgotten. Null: it is not ready. Does not block.
  const Batch* Ready(uint64_t step) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps [begin, end) will not be taken after all: makes room for others. Does not block.
  void Forget(uint64_t begin, uint64_t end) ABSL_LOCKS_EXCLUDED(mutex_);

  // Hands the memory of a batch that is no longer needed to a later one. Optional.
  void Recycle(std::unique_ptr<Batch> batch) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Prefetcher(const Dataset* dataset, const StepOrder& order, size_t capacity, Change change);

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Assemble(uint64_t step, Batch* batch) const;
  std::unique_ptr<Batch> TakeSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsKnown(uint64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t KnownSteps() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Dataset* const dataset_;
  const StepOrder order_;
  const size_t capacity_;
  const Change change_;

  mutable Mutex mutex_;  // Guards what follows; not held while a batch is assembled.
  CondVar work_;         // There is something to assemble, or it is time to stop.
  CondVar assembled_;    // The thread has finished a batch.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<uint64_t> expected_ ABSL_GUARDED_BY(mutex_);
  // What the thread assembles now, and whether that was forgotten since.
  absl::optional<uint64_t> under_way_ ABSL_GUARDED_BY(mutex_);
  bool under_way_forgotten_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Batch>> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Batch>> spares_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // Started when the rest is ready.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_PREFETCHER_H_
