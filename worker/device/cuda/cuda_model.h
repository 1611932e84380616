// A compiled model on a GPU.
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
#include "worker/device/cuda/cuda_replica.h"
#include "worker/device/cuda/device_state.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/device_meter.h"
#include "worker/model/batch_metrics.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// A step copies the variables and the batch to the device, launches two graphs, which were captured
// when the model was made, or the first batch of another size came, and hands over each gradient
// when its copy is done. All device memory is taken when the model is made, but for ragged ids.
//
// After an error of the device (UNAVAILABLE) the model is of no use any more.
class CudaModel final : public Model {
 public:
  // `gpu` is this model's alone. RESOURCE_EXHAUSTED: too little memory on the device or the host;
  // says how much is needed and what would fit. UNAVAILABLE: the device failed.
  static absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                        const BatchSizes& batches,
                                                        std::unique_ptr<cuda::Gpu> gpu,
                                                        const std::string& device_name,
                                                        std::shared_ptr<DeviceState> state,
                                                        std::shared_ptr<DeviceMeter> meter);
  ~CudaModel() override;

  const std::vector<VariableSpec>& variables() const override { return plan_.variables; }
  std::string numerics() const override { return numerics_; }
  absl::Span<float> values(size_t variable) override;

  // As CpuModel's. UNAVAILABLE: the device failed, or has not finished in time (DeviceState).
  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                    GradientSink* gradients) override;
  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override;

 private:
  CudaModel(const ModelPlan& plan, const BatchSizes& batches, std::unique_ptr<cuda::Gpu> gpu,
            std::string device_name, std::shared_ptr<DeviceState> state,
            std::shared_ptr<DeviceMeter> meter);

  absl::Status TakeMemory();
  double timeout_seconds() const { return absl::ToDoubleSeconds(state_->timeout()); }
  // Enqueues a whole step.
  void Launch(const Batch& batch, uint64_t seed, bool training);
  // The device is of no use any more: nothing of it is waited for, or given back.
  absl::Status TooLate();
  // Runs `work`, which returns a Status or a StatusOr; exceptions become statuses.
  template <typename Work>
  auto Catch(const Work& work) -> decltype(work());
  OutputBatch OutputAt(size_t output, const Batch& batch) const;
  // The sum of the examples' losses.
  double LossAt(size_t output, const Batch& batch) const;
  double MeanPenalty();

  const ModelPlan plan_;
  const Walk walk_;
  const BatchSizes batches_;
  const std::string device_name_;
  const std::shared_ptr<DeviceState> state_;
  const std::shared_ptr<DeviceMeter> meter_;
  const VariablePlaces places_;
  absl::optional<DeviceState::Call> gives_back_;  // While all that follows is destroyed.
  // One for each GPU.
  std::vector<std::unique_ptr<CudaReplica>> replicas_;
  const std::string numerics_;
  std::unique_ptr<HostVariables> host_;  // Made once the memory is known to be there.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_MODEL_H_
