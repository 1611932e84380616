// A compiled model on one or several GPUs.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_MODEL_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "worker/device/cuda/arriving_values.h"
#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/cuda_replica.h"
#include "worker/device/cuda/device_state.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/gradient_exchange.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/piece_sums.h"
#include "worker/device/device_meter.h"
#include "worker/model/batch_metrics.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// A GPU, and what its user calls it: "cuda:0".
struct NamedGpu {
  std::unique_ptr<cuda::Gpu> gpu;
  std::string name;
};

// Variables go to the device as they arrive, and those that nobody tells of at the beginning of
// each step. So does the batch, but one that is staged goes while they arrive. What of the next
// step comes while one is under way (ModelPlan::pulls_ahead) has a second place on the device, from
// where it is moved when that one is done. A step launches two graphs, which were captured when
// the model was made, or the first batch of another size came, and hands over each gradient when
// its copy is done: straight to the sink's buffer, if that is of host_memory(), but of several GPUs
// a large one alone; of one GPU there is a graph for each of these. All device memory is taken when
// the model is made, but for ragged ids.
//
// Of several GPUs each has all variables, and consecutive examples of the batch, as many as the
// others or one less; none where there are fewer examples than GPUs. Losses and gradients are those
// of the whole batch's mean; the replicas add gradients up themselves (GradientExchange). What a
// batch normalization divides by is of the replica's own examples. A device that is not
// deterministic has NCCL add them up, where it can.
//
// After an error of the device (UNAVAILABLE) the model is of no use any more.
class CudaModel final : public Model {
 public:
  // `gpus`, at least one, are this model's alone, and together called `device_name`.
  // RESOURCE_EXHAUSTED: too little memory on a GPU or the host; says how much is needed and what
  // would fit. UNAVAILABLE: the device failed.
  static absl::StatusOr<std::unique_ptr<Model>> Compile(
      const ModelPlan& plan, const BatchSizes& batches, std::vector<NamedGpu> gpus,
      const std::string& device_name, std::shared_ptr<DeviceState> state,
      std::shared_ptr<DeviceMeter> meter, std::shared_ptr<HostMemory> host_memory);
  ~CudaModel() override;

  const std::vector<VariableSpec>& variables() const override { return plan_.variables; }
  std::string numerics() const override { return numerics_; }
  absl::Span<float> values(size_t variable) override;
  absl::Span<float> held_values(size_t variable) override { return host_->value(variable); }
  // The same memory as `values`: once the loss is known, the device has all that is there.
  bool has_next_values() const override { return plan_.pulls_ahead; }
  absl::Span<float> next_values(size_t variable) override { return values(variable); }
  // A lost device is told of at once.
  void Arrived(size_t variable, size_t first, size_t count) override;

  // Takes no memory, but for ragged ids: between steps the place of a batch is free, on the device
  // and in pinned memory. Within Train only the pinned one is, and the batch goes to the second
  // place on the device: a model without one stages nothing then, nor does one with ragged ids,
  // whose places may move. A lost device is told of at once.
  bool Stage(const Batch* batch) override;

  std::shared_ptr<HostMemory> host_memory() const override { return host_memory_; }

  // As CpuModel's. UNAVAILABLE: the device failed, or has not finished in time (DeviceState).
  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                    GradientSink* gradients) override;
  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override;

 private:
  CudaModel(const ModelPlan& plan, const BatchSizes& batches, std::vector<NamedGpu> gpus,
            std::string device_name, std::shared_ptr<DeviceState> state,
            std::shared_ptr<DeviceMeter> meter, std::shared_ptr<HostMemory> host_memory);

  std::vector<std::unique_ptr<CudaReplica>> MakeReplicas(std::vector<NamedGpu> gpus) const;
  // What is called next is this one's GPU.
  CudaReplica& At(size_t replica);
  // Copies the batch to the replicas.
  void CopyBatch(const std::vector<BatchPart>& parts, bool training);
  // Enqueues a whole step: the batch, unless it is `staged`, and forwards, and backwards.
  void Launch(const std::vector<BatchPart>& parts, bool staged, uint64_t seed, bool training,
              const GradientPlaces& to);
  void LaunchForward(const std::vector<BatchPart>& parts, uint64_t seed, bool training,
                     const GradientPlaces& to);
  void LaunchBackward(const std::vector<BatchPart>& parts, const GradientPlaces& to);
  // False: the deadline has passed. Likewise below.
  bool AwaitForward(const std::vector<BatchPart>& parts);
  bool AwaitGradients();
  bool HandOver(const GradientPlaces& to, GradientSink* gradients);
  // What came ahead takes its place, and what is still to come for the next step goes there.
  void MoveIn();
  absl::Status TakeMemory();
  absl::Status CheckMemory();
  std::vector<cuda::Gpu*> Gpus() const;  // One for each replica.
  // NCCL's sums where they serve, and leave enough memory.
  absl::Status MakeSums();
  // Captures the passes for batches of this size: what is wrong with them, and the memory of the
  // code that they run, comes before the first step.
  void Prepare(size_t size, bool training);
  // For full batches, while there is memory to try in.
  void ChooseProducts(size_t size, bool training);
  // The sink's places, or our own where it has none for a device, or is null.
  GradientPlaces PlacesFor(GradientSink* sink) const;
  // Where passes themselves copy gradients to. Of several replicas, which exchange them first:
  // nowhere.
  const GradientPlaces& FromPass(const GradientPlaces& to) const {
    return exchange_ == nullptr ? to : nowhere_;
  }
  double timeout_seconds() const { return absl::ToDoubleSeconds(state_->timeout()); }
  // The device is of no use any more: nothing of it is waited for, or given back.
  absl::Status TooLate();
  // The status of an error; a loss of the device is told.
  absl::Status Told(const cuda::Error& error);
  // Waits for what a step that failed with `why` has enqueued, which uses the host's memory that
  // the next one writes to. Returns `why`, or what is worse.
  absl::Status Settle(absl::Status why);
  // Waits for all that was ever enqueued, be it of a GPU that takes from another.
  void Finish() noexcept;
  // Runs `work`, which returns a Status or a StatusOr; exceptions become statuses.
  template <typename Work>
  auto Catch(const Work& work) -> decltype(work());
  // Until it is called again.
  OutputBatch OutputAt(size_t output, const std::vector<BatchPart>& parts);
  // The sum of the examples' losses.
  double LossAt(size_t output, const std::vector<BatchPart>& parts) const;
  double MeanPenalty();

  const ModelPlan plan_;
  const Walk walk_;
  const BatchSizes batches_;
  const std::string device_name_;
  const std::shared_ptr<DeviceState> state_;
  const std::shared_ptr<DeviceMeter> meter_;
  const std::shared_ptr<HostMemory> host_memory_;
  const VariablePlaces places_;
  const std::vector<GradientBucket> buckets_;
  absl::optional<DeviceState::Call> gives_back_;  // While all that follows is destroyed.
  // One for each GPU.
  const std::vector<std::unique_ptr<CudaReplica>> replicas_;
  std::string numerics_;           // Known once the passes are prepared.
  const Batch* staged_ = nullptr;  // What was copied last, while the next Train may use it.
  bool within_train_ = false;
  size_t at_work_ = 0;  // The replica whose GPU is called: who is named in errors.
  std::unique_ptr<cuda::PieceSums> sums_;  // Null: gradients are added up by our own kernels.
  // Made once the memory is known to be there.
  std::unique_ptr<HostVariables> host_;
  std::unique_ptr<GradientExchange> exchange_;  // Null: of one replica.
  std::vector<float> values_of_output_;         // Of several replicas; kept between batches.
  const GradientPlaces nowhere_;
  ArrivingValues arriving_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_MODEL_H_
