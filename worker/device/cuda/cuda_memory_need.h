// Whether a job fits into a GPU's memory, and what of it into the host's.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_MEMORY_NEED_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_MEMORY_NEED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/cuda/cuda_passes.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// Of one model. What it is made of must outlive it.
class CudaMemoryNeed {
 public:
  // What is left to CUDA itself: code of kernels, ours and cuBLASLt's, which is loaded when it is
  // first used, and graphs. An estimate; the context is not part of it, which is there before free
  // memory is asked for.
  static constexpr uint64_t kMargin = uint64_t{256} << 20;

  // `batches` are whole ones; `layout` is one replica's, for its part of them.
  CudaMemoryNeed(const ModelPlan& plan, const Walk& walk, const CudaLayers& layers,
                 const VariablePlaces& places, const std::vector<GradientBucket>& buckets,
                 size_t replicas, const BatchSizes& batches, const CudaLayout& layout)
      : plan_(plan),
        walk_(walk),
        layers_(layers),
        places_(places),
        buckets_(buckets),
        replicas_(replicas),
        batches_(batches),
        layout_(layout) {}

  // RESOURCE_EXHAUSTED: more than `free` bytes of the device; says how much both are, and with
  // which batch size it would fit.
  absl::Status CheckDevice(uint64_t free, const std::string& device_name) const;

  // RESOURCE_EXHAUSTED: pinned memory, gradients and batches need more than `limit` bytes.
  absl::Status CheckHost(uint64_t limit) const;

 private:
  // Of device memory that a compiled model takes of one GPU, with the margin, but for ids beyond
  // those of its first batches.
  uint64_t DeviceBytes(const CudaLayout& layout, const BatchSizes& part) const;
  // The same for batches of other sizes.
  uint64_t DeviceBytes(const BatchSizes& batches) const;
  // The same of a job that does not pull ahead.
  uint64_t BytesWithoutAhead() const;
  // What to do where batches of `fitting` examples would fit; 0: none.
  std::string SmallerBatches(size_t fitting) const;

  const ModelPlan& plan_;
  const Walk& walk_;
  const CudaLayers& layers_;
  const VariablePlaces& places_;
  const std::vector<GradientBucket>& buckets_;
  const size_t replicas_;
  const BatchSizes batches_;
  const CudaLayout& layout_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_MEMORY_NEED_H_
