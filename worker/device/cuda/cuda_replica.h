// A model's layers on one GPU.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_REPLICA_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_REPLICA_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/copies_in.h"
#include "worker/device/cuda/cuda_ids.h"
#include "worker/device/cuda/cuda_passes.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/gradient_exchange.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/mirrored_memory.h"
#include "worker/device/per_batch.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/memory_budget.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// The GPU, and all that is on it: layers, memory, and the graphs of passes. Used by one thread at a
// time; methods throw cuda::Error.
class CudaReplica {
 public:
  // Takes no memory of the GPU yet. One of so many `replicas`, for parts of up to `sizes`. `name`
  // is the GPU's: "cuda:0". What it is given by reference must outlive it.
  CudaReplica(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places,
              const std::vector<GradientBucket>& buckets, size_t replicas, const BatchSizes& sizes,
              std::unique_ptr<cuda::Gpu> gpu, std::string name);

  const std::string& name() const { return name_; }
  cuda::Gpu* gpu() const { return gpu_.get(); }
  const CudaLayers& layers() const { return layers_; }
  const CudaLayout& layout() const { return layout_; }
  const CudaGradients& gradients() const { return layout_.gradients; }

  // What it brings to the exchange of gradients. After TakeMemory.
  GradientExchange::Member member() const;

  // For parts of so many examples (cuda::Layer::Prepare). Before TakeMemory, whose memory it tries
  // in.
  void ChooseProducts(size_t examples, bool training) { layers_.Prepare(examples, training); }

  // Before all that follows. Values come from `host`, which must outlive this.
  void TakeMemory(const HostVariables* host);

  // A copy of `bytes` of the host's values, from `begin` on, for the pass that is launched next:
  // those before take what they have. After all copies before. May be called by another thread than
  // the other methods, but not between BeginPass and the last launch of the pass.
  void CopyInValues(size_t begin, size_t bytes);

  // Likewise, of what the pass that is launched next takes of a batch; the call that was the last
  // counts.
  void CopyBatch(const BatchPart& part, bool training);
  // What came ahead takes its place, after the pass that was launched last, and what comes from now
  // on goes straight. BeginPass does so too: this is for who knows that the pass is done.
  void MoveIn();
  // Has that pass wait for the values and the batch.
  void BeginPass(uint64_t seed);
  // Captures the passes for this part of batches of its batch's size, but for those that are
  // captured already. In training, gradients go to `to` where this is the only replica.
  void Prepare(const BatchPart& part, bool training, const GradientPlaces& to);
  // REQUIRES: the batch is copied, the pass begun, and the passes are prepared since.
  void LaunchForward(const BatchPart& part, bool training);
  // Of several replicas: up to where the gradients of a bucket are final, one after the other.
  // Alone: all, as bucket 0.
  void LaunchBackward(const BatchPart& part, const GradientPlaces& to, size_t bucket);

  // Waits for the outputs and losses. False: they took more than `seconds`.
  bool AwaitForward(double seconds) const;
  // Waits for all that is enqueued on these streams. False: one of them took more than `seconds`.
  bool Await(std::initializer_list<cuda::Stream> streams, double seconds) const;
  // The first value of an output, and the first of its examples' losses, of the batch that was
  // waited for.
  const float* Output(size_t output) const;
  const double* Losses(size_t output) const;

  // The GPU does not answer: giving memory back would wait for ever.
  void Abandon();

 private:
  // Copies go where they went when they were captured, so each gradient set has a graph.
  struct BackwardGraphs {
    GradientPlaces to;
    std::vector<std::unique_ptr<cuda::Graph>> by_bucket;
  };
  // Of the sets that the training loop keeps, and of one more.
  static constexpr size_t kMostBackwardGraphs = kGradientSets + 1;
  struct Graphs {
    std::unique_ptr<cuda::Graph> forward;
    std::vector<BackwardGraphs> backward;  // That used last is the last. Of an evaluation: none.
  };
  PerBatch<Graphs>& GraphsOf(bool training) {
    return training ? training_graphs_ : evaluation_graphs_;
  }
  void AddPlacesAhead();
  Graphs& Captured(const BatchPart& part, bool training);
  std::unique_ptr<Graphs> CaptureForward(const BatchPart& part, bool training);
  BackwardGraphs CaptureBackward(const BatchPart& part, const GradientPlaces& to);
  const BackwardGraphs& CapturedBackward(const BatchPart& part, const GradientPlaces& to);

  const ModelPlan& plan_;
  const Walk& walk_;
  const VariablePlaces& places_;
  const std::vector<GradientBucket>& buckets_;
  const size_t replicas_;
  const BatchSizes sizes_;
  const std::string name_;
  std::unique_ptr<cuda::Gpu> gpu_;
  const CudaLayers layers_;
  CudaLayout layout_;
  const std::unique_ptr<cuda::Event> done_;  // Of Await.
  const HostVariables* host_ = nullptr;
  // Made once the memory is known to be there.
  std::unique_ptr<MirroredMemory> memory_;
  std::unique_ptr<CudaIds> ids_;
  std::unique_ptr<CudaPasses> passes_;
  std::unique_ptr<CopiesIn> copies_in_;
  std::unique_ptr<cuda::Event> copied_in_;
  std::unique_ptr<cuda::Event> forward_done_;
  std::unique_ptr<cuda::Event> backward_done_;
  // By the size of the whole batch.
  PerBatch<Graphs> training_graphs_;
  PerBatch<Graphs> evaluation_graphs_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_REPLICA_H_
