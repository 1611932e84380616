// Models on one or several GPUs.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/cuda/device_lost.h"
#include "worker/device/cuda/device_state.h"
#include "worker/device/cuda/library.h"
#include "worker/device/device.h"
#include "worker/model/host_memory.h"

namespace millrace::worker {

struct CudaDeviceOptions {
  // As CUDA_VISIBLE_DEVICES leaves them; at least one, at most cuda::kMostGpus, each once. Several
  // share each batch.
  std::vector<int> gpus = {0};
  bool deterministic = true;  // As cuda::GpuOptions.
  // How long the GPU may take for a step, or a call of CUDA to return; after that it is lost.
  // Making a model and giving it back may take kLeastMakingTimeout in any case.
  absl::Duration timeout = absl::Seconds(120);
  // That other devices of the process know of, too. Null: only this one does.
  std::shared_ptr<SharedGpus> shared = nullptr;
};

// Each of its models has streams and memory of its own on the GPUs, and may be used by any one
// thread at a time. Deterministic: equal values and batches give equal bits on as many GPUs of one
// kind.
class CudaDevice final : public Device {
 public:
  // `library` must outlive it. UNAVAILABLE: there is no GPU of an index, and how many there are,
  // or it cannot be used.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(cuda::Library* library,
                                                          const CudaDeviceOptions& options,
                                                          DeviceLost lost);

  // "cuda:0", "cuda:0,1".
  const std::string& name() const override { return name_; }
  std::string description() const override { return description_; }
  const DeviceMeter* meter() const override { return meter_.get(); }
  bool AwaitCalls(absl::Duration patience) override { return state_->AwaitCalls(patience); }
  absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                 const BatchSizes& batches) override;

 private:
  CudaDevice(cuda::Library* library, const CudaDeviceOptions& options, const std::string& kinds,
             std::shared_ptr<DeviceState> state);

  cuda::Library* const library_;
  const CudaDeviceOptions options_;
  const std::string name_;
  const std::string description_;
  const std::shared_ptr<DeviceState> state_;
  const std::shared_ptr<HostMemory> host_memory_;
  const std::shared_ptr<DeviceMeter> meter_ = std::make_shared<DeviceMeter>();
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
