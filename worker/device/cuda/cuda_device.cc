#include "worker/device/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/device/cuda/cuda_host_memory.h"
#include "worker/device/cuda/cuda_model.h"
#include "worker/device/cuda/gpu_names.h"

namespace millrace::worker {
namespace {

cuda::GpuOptions ForGpu(const CudaDeviceOptions& options) {
  return {.deterministic = options.deterministic};
}

std::string NameOf(int gpu) { return absl::StrCat("cuda:", gpu); }

absl::Status StatusOf(int gpu, const cuda::Error& error) {
  return absl::UnavailableError(absl::StrCat(NameOf(gpu), ": ", error.what()));
}

absl::StatusOr<cuda::GpuProperties> PropertiesOf(cuda::Library* library, int index,
                                                 const CudaDeviceOptions& options) {
  try {
    return library->Open(index, ForGpu(options))->Properties();
  } catch (const cuda::Error& error) {
    return StatusOf(index, error);
  }
}

}  // namespace

CudaDevice::CudaDevice(cuda::Library* library, const CudaDeviceOptions& options,
                       const std::string& kinds, std::shared_ptr<DeviceState> state)
    : library_(library),
      options_(options),
      name_(CudaName(options.gpus)),
      description_(absl::StrCat(name_, " (", kinds, ")")),
      state_(std::move(state)),
      host_memory_(std::make_shared<CudaHostMemory>(library, options.gpus.front(),
                                                    options.gpus.size() > 1, state_)) {}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(cuda::Library* library,
                                                             const CudaDeviceOptions& options,
                                                             DeviceLost lost) {
  std::vector<std::string> kinds;
  std::string release;  // The library's, and so that of all.
  for (const int index : options.gpus) {
    MILLRACE_ASSIGN_OR_RETURN(const cuda::GpuProperties gpu, PropertiesOf(library, index, options));
    kinds.push_back(absl::StrCat(gpu.name, ", sm_", gpu.major, gpu.minor));
    release = gpu.release;
  }
  const auto shared = options.shared != nullptr ? options.shared : std::make_shared<SharedGpus>();
  std::shared_ptr<DeviceState> state = shared->Of(CudaName(options.gpus), options.timeout);
  state->AddListener(std::move(lost));
  return std::unique_ptr<CudaDevice>(new CudaDevice(
      library, options, absl::StrCat(GpuNames(kinds), ", ", release), std::move(state)));
}

absl::StatusOr<std::unique_ptr<Model>> CudaDevice::Compile(const ModelPlan& plan,
                                                           const BatchSizes& batches) {
  if (state_->hangs()) return absl::UnavailableError(absl::StrCat(name_, ": does not answer"));
  const DeviceState::Call call(state_.get(), "makes a model", state_->making_timeout());
  std::vector<NamedGpu> gpus;
  for (const int gpu : options_.gpus) {
    try {
      gpus.push_back({library_->Open(gpu, ForGpu(options_)), NameOf(gpu)});
    } catch (const cuda::Error& error) {
      const absl::Status status = StatusOf(gpu, error);
      if (error.kind() == cuda::Error::kLost) state_->Lose(status);
      return status;
    }
  }
  return CudaModel::Compile(plan, batches, std::move(gpus), name_, state_, meter_, host_memory_);
}

}  // namespace millrace::worker
