// How a batch is divided over GPUs.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_BATCH_PART_H_
#define MILLRACE_WORKER_DEVICE_CUDA_BATCH_PART_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "worker/input/batch.h"
#include "worker/model/batch_sizes.h"

namespace millrace::worker {

// Consecutive examples of a batch, which outlives it.
struct BatchPart {
  const Batch* batch = nullptr;
  size_t first = 0;
  size_t size = 0;  // Examples; at least 1.

  size_t whole() const { return batch->size; }
  size_t end() const { return first + size; }
};

inline BatchPart AllOf(const Batch& batch) { return {&batch, 0, batch.size}; }

// In order, of sizes as equal as can be, the larger ones first; of fewer examples than `parts` each
// is a part.
inline std::vector<BatchPart> Divide(const Batch& batch, size_t parts) {
  parts = std::min(parts, batch.size);
  std::vector<BatchPart> divided;
  size_t first = 0;
  for (size_t i = 0; i < parts; ++i) {
    const size_t size = batch.size / parts + (i < batch.size % parts ? 1 : 0);
    divided.push_back({&batch, first, size});
    first += size;
  }
  return divided;
}

// The most that a part has, of batches of up to these sizes.
inline BatchSizes PartSizes(const BatchSizes& batches, size_t parts) {
  return {(batches.train + parts - 1) / parts, (batches.evaluation + parts - 1) / parts};
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_BATCH_PART_H_
