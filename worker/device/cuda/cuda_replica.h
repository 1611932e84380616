// A model's layers on one GPU.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_REPLICA_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_REPLICA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/device/cuda/cuda_ids.h"
#include "worker/device/cuda/cuda_passes.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/device/per_batch.h"
#include "worker/input/batch.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// The GPU, and all that is on it: layers, memory, and the graphs of passes. Used by one thread at a
// time; methods throw cuda::Error.
class CudaReplica {
 public:
  // Takes no memory of the GPU yet. For batches of up to `batches`. `name` is the GPU's: "cuda:0".
  // What it is given by reference must outlive it.
  CudaReplica(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places,
              const BatchSizes& batches, std::unique_ptr<cuda::Gpu> gpu, std::string name);

  const std::string& name() const { return name_; }
  cuda::Gpu* gpu() const { return gpu_.get(); }
  const CudaLayers& layers() const { return layers_; }
  const CudaLayout& layout() const { return layout_; }
  const CudaGradients& gradients() const { return layout_.gradients; }

  // Before all that follows; prepares the passes for the largest batches. Values come from `host`,
  // and gradients go there; it must outlive this.
  void TakeMemory(const HostVariables* host);

  // Copies all that a pass takes.
  void EnqueueInputs(const Batch& batch, uint64_t seed, bool training);
  // Captures the passes for batches of this size, but for those that are captured already.
  void Prepare(size_t batch, bool training);
  // REQUIRES: the inputs are enqueued, and the passes prepared since.
  void LaunchForward(size_t batch, bool training);
  void LaunchBackward(size_t batch);

  // Waits for the outputs and losses. False: they took more than `seconds`.
  bool AwaitForward(double seconds) const;
  // The first value of an output, and the first of its examples' losses, of the batch that was
  // waited for.
  const float* Output(size_t output) const;
  const double* Losses(size_t output) const;

  // The GPU does not answer: giving memory back would wait for ever.
  void Abandon();

 private:
  struct Graphs {
    std::unique_ptr<cuda::Graph> forward;
    std::unique_ptr<cuda::Graph> backward;  // Null: of an evaluation.
  };
  PerBatch<Graphs>& GraphsOf(bool training) {
    return training ? training_graphs_ : evaluation_graphs_;
  }
  Graphs& Captured(size_t batch, bool training);
  std::unique_ptr<Graphs> Capture(size_t batch, bool training);

  const ModelPlan& plan_;
  const Walk& walk_;
  const VariablePlaces& places_;
  const BatchSizes batches_;
  const std::string name_;
  std::unique_ptr<cuda::Gpu> gpu_;
  const CudaLayers layers_;
  CudaLayout layout_;
  const HostVariables* host_ = nullptr;
  // Made once the memory is known to be there.
  std::unique_ptr<MirroredMemory> memory_;
  std::unique_ptr<CudaIds> ids_;
  std::unique_ptr<CudaPasses> passes_;
  std::unique_ptr<cuda::Event> forward_done_;
  PerBatch<Graphs> training_graphs_;
  PerBatch<Graphs> evaluation_graphs_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_REPLICA_H_
