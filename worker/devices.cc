#include "worker/devices.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"

namespace millrace::worker {
namespace {

// Of "cuda" or "cuda:N".
absl::StatusOr<int> GpuIndex(const std::string& name) {
  if (name == "cuda") return 0;
  absl::string_view number = name;
  int index = 0;
  if (absl::ConsumePrefix(&number, "cuda:") && absl::SimpleAtoi(number, &index) && index >= 0) {
    return index;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device: '", name, "'; must be auto, cpu, cuda, or cuda:N, such as cuda:0"));
}

absl::StatusOr<std::shared_ptr<Device>> OpenGpu(int index, const DeviceOptions& options,
                                                DeviceLost lost, const CudaLoader& load_cuda) {
  CudaDeviceOptions gpu;
  gpu.index = index;
  gpu.deterministic = options.deterministic;
  gpu.timeout = options.timeout;
  gpu.gpus = options.gpus;
  MILLRACE_ASSIGN_OR_RETURN(cuda::Library* const library, load_cuda());
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                            CudaDevice::Open(library, gpu, std::move(lost)));
  return device;
}

}  // namespace

absl::Status CheckDeviceName(const std::string& name) {
  if (name == "cpu" || name == "auto") return absl::OkStatus();
  return GpuIndex(name).status();
}

absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const DeviceOptions& options, DeviceLost lost,
                                                   const CudaLoader& load_cuda) {
  MILLRACE_RETURN_IF_ERROR(CheckDeviceName(options.name));
  if (options.name == "cpu") return std::make_shared<CpuDevice>(options.threads);
  if (options.name != "auto") {
    MILLRACE_ASSIGN_OR_RETURN(const int index, GpuIndex(options.name));
    auto gpu = OpenGpu(index, options, std::move(lost), load_cuda);
    if (gpu.ok()) return gpu;
    return absl::UnavailableError(absl::StrCat("device: ", gpu.status().message()));
  }
  auto gpu = OpenGpu(0, options, std::move(lost), load_cuda);
  if (gpu.ok()) return gpu;
  LOG(INFO) << "Models run on the CPU: " << gpu.status().message();
  return std::make_shared<CpuDevice>(options.threads);
}

}  // namespace millrace::worker
