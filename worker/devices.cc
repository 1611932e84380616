#include "worker/devices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"

namespace millrace::worker {
namespace {

// Adds the number that `text` is; false: it is none, or is there already.
bool AddGpu(absl::string_view text, std::vector<int>* gpus) {
  int index = 0;
  if (!absl::SimpleAtoi(text, &index) || index < 0) return false;
  if (std::find(gpus->begin(), gpus->end(), index) != gpus->end()) return false;
  gpus->push_back(index);
  return true;
}

// Of "cuda", "cuda:1" or "cuda:0,1". Empty: it is none of these.
std::vector<int> GpusOf(const std::string& name) {
  if (name == "cuda") return {0};
  absl::string_view numbers = name;
  std::vector<int> gpus;
  if (!absl::ConsumePrefix(&numbers, "cuda:")) return {};
  for (const absl::string_view number : absl::StrSplit(numbers, ',')) {
    if (!AddGpu(number, &gpus)) return {};
  }
  return gpus.size() <= cuda::kMostGpus ? gpus : std::vector<int>();
}

absl::StatusOr<std::shared_ptr<Device>> OpenGpus(std::vector<int> gpus,
                                                 const DeviceOptions& options, DeviceLost lost,
                                                 const CudaLoader& load_cuda) {
  CudaDeviceOptions gpu;
  gpu.gpus = std::move(gpus);
  gpu.deterministic = options.deterministic;
  gpu.timeout = options.timeout;
  gpu.shared = options.shared_gpus;
  MILLRACE_ASSIGN_OR_RETURN(cuda::Library* const library, load_cuda());
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                            CudaDevice::Open(library, gpu, std::move(lost)));
  return device;
}

}  // namespace

absl::Status CheckDeviceName(const std::string& name) {
  if (name == "cpu" || name == "auto") return absl::OkStatus();
  if (!GpusOf(name).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "device: '", name, "'; must be auto, cpu, cuda, or cuda: with the numbers of up to ",
      cuda::kMostGpus, " GPUs, each once, such as cuda:0 or cuda:0,1"));
}

absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const DeviceOptions& options, DeviceLost lost,
                                                   const CudaLoader& load_cuda) {
  MILLRACE_RETURN_IF_ERROR(CheckDeviceName(options.name));
  if (options.name == "cpu") return std::make_shared<CpuDevice>(options.threads);
  if (options.name != "auto") {
    auto gpu = OpenGpus(GpusOf(options.name), options, std::move(lost), load_cuda);
    if (gpu.ok()) return gpu;
    return absl::UnavailableError(
        absl::StrCat("device: ", gpu.status().message(), "; --device=cpu does without a GPU"));
  }
  auto gpu = OpenGpus({0}, options, std::move(lost), load_cuda);
  if (gpu.ok()) return gpu;
  LOG(INFO) << "Models run on the CPU: " << gpu.status().message();
  return std::make_shared<CpuDevice>(options.threads);
}

}  // namespace millrace::worker
