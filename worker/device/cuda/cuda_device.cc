#include "worker/device/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/device/cuda/cuda_model.h"

namespace millrace::worker {
namespace {

cuda::GpuOptions ForGpu(const CudaDeviceOptions& options) {
  return {.deterministic = options.deterministic};
}

std::string Describe(const cuda::GpuProperties& gpu) {
  return absl::StrCat(gpu.name, ", sm_", gpu.major, gpu.minor, ", ", gpu.release);
}

}  // namespace

CudaDevice::CudaDevice(cuda::Library* library, const CudaDeviceOptions& options,
                       const std::string& gpu, std::shared_ptr<DeviceState> state)
    : library_(library),
      options_(options),
      name_(absl::StrCat("cuda:", options.index)),
      description_(absl::StrCat(name_, " (", gpu, ")")),
      state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(cuda::Library* library,
                                                             const CudaDeviceOptions& options,
                                                             DeviceLost lost) {
  const int index = options.index;
  try {
    const std::string gpu = Describe(library->Open(index, ForGpu(options))->Properties());
    const auto gpus = options.gpus != nullptr ? options.gpus : std::make_shared<SharedGpus>();
    const std::shared_ptr<DeviceState> state = gpus->Of(index, options.timeout);
    state->AddListener(std::move(lost));
    return std::unique_ptr<CudaDevice>(new CudaDevice(library, options, gpu, state));
  } catch (const cuda::Error& error) {
    return absl::UnavailableError(absl::StrCat("cuda:", index, ": ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<Model>> CudaDevice::Compile(const ModelPlan& plan,
                                                           const BatchSizes& batches) {
  if (state_->hangs()) return absl::UnavailableError(absl::StrCat(name_, ": does not answer"));
  const DeviceState::Call call(state_.get(), "makes a model");
  std::unique_ptr<cuda::Gpu> gpu;
  try {
    gpu = library_->Open(options_.index, ForGpu(options_));
  } catch (const cuda::Error& error) {
    const absl::Status status = absl::UnavailableError(absl::StrCat(name_, ": ", error.what()));
    if (error.kind() == cuda::Error::kLost) state_->Lose(status);
    return status;
  }
  return CudaModel::Compile(plan, batches, std::move(gpu), name_, state_, meter_);
}

}  // namespace millrace::worker
