// What a step takes beside the variables, on its way to the device.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_INPUTS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/copies_in.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// A batch's features but those of ids (CudaIds), its labels, how much its examples count, and the
// seed. Immutable; the places are those of one step at a time.
class CudaInputs {
 public:
  // Adds pieces for batches of up to `batch` examples to the mirrored part of `layout`. `plan` must
  // outlive it.
  CudaInputs(const ModelPlan& plan, size_t batch, MemoryLayout* layout);

  // Copies a part of a batch to its twins in host memory, and adds their copies to the device to
  // `copies`. The twins stay as they are until these are done, or it is called again: what was on
  // its way then is of no use, and what is newer comes after it. `classes`: class weights count
  // too. REQUIRES: CheckBatch is OK.
  void CopyBatch(const BatchPart& part, bool classes, const MirroredMemory& memory,
                 CopiesIn* copies) const;
  // On the compute stream.
  void EnqueueSeed(uint64_t seed, const MirroredMemory& memory) const;

  // All of its pieces.
  size_t begin() const { return begin_; }
  size_t bytes() const { return bytes_; }

  // On the device: where a feature of floats or of bytes is.
  const float* Floats(size_t feature, const MirroredMemory& memory) const {
    return memory.Device<float>(features_[feature]);
  }
  const uint8_t* Bytes(size_t feature, const MirroredMemory& memory) const {
    return memory.Device<uint8_t>(features_[feature]);
  }
  const uint64_t* Seed(const MirroredMemory& memory) const {
    return memory.Device<uint64_t>(seed_);
  }

  // Fills in what the loss of an output takes of the batch.
  void SetLabels(size_t output, const MirroredMemory& memory, cuda::LossPass* pass) const;

 private:
  const ModelPlan& plan_;
  const size_t begin_;
  std::vector<size_t> features_;
  std::vector<size_t> labels_;
  std::vector<size_t> learned_;  // The labels that outputs learn, each once.
  std::vector<size_t> weights_;  // Of each output.
  size_t seed_;
  size_t bytes_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_INPUTS_H_
