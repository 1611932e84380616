// Enqueues the layers of a model on a GPU, as its walk and its memory plan say.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_PASSES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_PASSES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/cuda_gradients.h"
#include "worker/device/cuda/cuda_ids.h"
#include "worker/device/cuda/cuda_inputs.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/memory_plan.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// The layers and losses of a model, without memory.
struct CudaLayers {
  // Throws cuda::Error.
  CudaLayers(const ModelPlan& plan, const Walk& walk, cuda::Gpu* gpu);

  // What they need at most for batches of these sizes.
  size_t WorkspaceBytes(const BatchSizes& batches) const;

  // As cuda::Layer. Throws cuda::Error.
  void Prepare(size_t batch, bool training) const;

  std::vector<std::unique_ptr<cuda::Layer>> layers;  // Null: has no step of its own (Walk).
  std::vector<std::unique_ptr<cuda::Loss>> losses;   // Of each output.
};

// Where all that a compiled model has on one of its GPUs is. The mirrored part comes first.
struct CudaLayout {
  CudaLayout(const ModelPlan& plan, const Walk& walk, const CudaLayers& layers,
             const VariablePlaces& places, const BatchSizes& batches,
             const std::vector<GradientBucket>& buckets, size_t replicas);

  MemoryLayout memory;  // Before the others, which add to it.
  MemoryPlan training;
  MemoryPlan evaluation;
  CudaGradients gradients;
  CudaInputs inputs;
  std::vector<size_t> outputs;  // Of each: its values,
  std::vector<size_t> losses;   // and its examples' losses.
  // Of GradientExchange, each MarksBytes: what a GPU finds, and where that is copied to.
  size_t marks = 0;
  size_t marks_copied = 0;
  size_t mirrored_bytes = 0;
  size_t values = 0;  // Of all variables.
  // With ModelPlan::pulls_ahead alone: where those of the next step come while one is under way.
  size_t inputs_ahead = 0;
  size_t values_ahead = 0;
  size_t received = 0;  // For pieces of other replicas' gradients.
  size_t passes = 0;
  std::vector<size_t> carried;  // Of each layer (cuda::Layer::CarriedBytes); kNoPlace: nothing.
  size_t workspace = 0;
};

// Used by one thread at a time; throws cuda::Error. All it is made of must outlive it.
class CudaPasses {
 public:
  CudaPasses(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places,
             const CudaLayers& layers, CudaLayout* layout, const MirroredMemory& memory,
             const CudaIds& ids, cuda::Gpu* gpu);

  // The layers, then the losses, then the copies of the outputs and of the losses to their twins.
  void EnqueueForward(const BatchPart& part, bool training);
  // After that of a training pass: the backward steps from `begin` to before `end`. All of them, in
  // order, finish all gradients, which go to `to` (CudaGradients::Begin).
  void EnqueueBackward(const BatchPart& part, const GradientPlaces& to, size_t begin, size_t end);

 private:
  const MemoryPlan& PlacesOf(bool training) const {
    return training ? layout_->training : layout_->evaluation;
  }
  // Null: nowhere.
  float* At(size_t place) const;
  const float* Value(const MemoryPlan& places, size_t value) const;
  cuda::Pass PassOf(const MemoryPlan& places, size_t layer, const BatchPart& part,
                    bool training) const;
  void ConvertBytes(const MemoryPlan& places, size_t batch) const;
  void EnqueueLosses(const MemoryPlan& places, const BatchPart& part, bool training) const;
  void EnqueueStep(const BatchPart& part, size_t index);
  void AddUp(const GradientPlace& gradient, size_t count) const;

  const ModelPlan& plan_;
  const Walk& walk_;
  const CudaLayers& layers_;
  CudaLayout* const layout_;
  const MirroredMemory& memory_;
  const CudaIds& ids_;
  cuda::Gpu* const gpu_;
  std::vector<std::vector<const float*>> parameters_;  // Of each layer, by role.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_PASSES_H_
