#include "worker/devices.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/start_thread.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/gpu_names.h"

namespace millrace::worker {
namespace {

// It is there where NVIDIA's driver is loaded, in containers too.
constexpr char kDriver[] = "/proc/driver/nvidia/version";

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

using OpenedDevice = absl::StatusOr<std::shared_ptr<Device>>;

OpenedDevice OpenGpus(std::vector<int> gpus, const DeviceOptions& options, DeviceLost lost,
                      const CudaLoader& load_cuda) {
  const std::string name = CudaName(gpus);
  CudaDeviceOptions gpu;
  gpu.gpus = std::move(gpus);
  gpu.deterministic = options.deterministic;
  gpu.timeout = options.timeout;
  gpu.shared = options.shared_gpus;
  MILLRACE_ASSIGN_OR_RETURN(cuda::Library* const library, load_cuda());
  LOG(INFO) << "opens " << name;
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                            CudaDevice::Open(library, gpu, std::move(lost)));
  return device;
}

// The driver of a GPU that is broken may not return from any call.
OpenedDevice OpenGpusInTime(const std::vector<int>& gpus, const DeviceOptions& options,
                            const DeviceLost& lost, const CudaLoader& load_cuda) {
  struct Opening {
    Mutex mutex;
    CondVar ended;
    absl::optional<OpenedDevice> device ABSL_GUARDED_BY(mutex);
  };
  const auto opening = std::make_shared<Opening>();
  auto opener = StartThread([opening, gpus, options, lost, load_cuda] {
    OpenedDevice device = OpenGpus(gpus, options, lost, load_cuda);
    MutexLock lock(&opening->mutex);
    opening->device = std::move(device);
    opening->ended.SignalAll();
  });
  MILLRACE_RETURN_IF_ERROR(opener.status());
  opener->detach();
  const absl::Time deadline = Clock::Real()->Now() + options.opening_timeout;
  MutexLock lock(&opening->mutex);
  while (!opening->device) {
    if (!Clock::Real()->WaitUntil(&opening->ended, &opening->mutex, deadline)) continue;
    if (opening->device) break;
    return absl::DeadlineExceededError(absl::StrCat(CudaName(gpus), " was not opened in ",
                                                    absl::FormatDuration(options.opening_timeout),
                                                    "; nvidia-smi may say what is wrong with it"));
  }
  return *std::move(opening->device);
}

}  // namespace

absl::Status CheckDeviceName(const std::string& name) {
  if (name == "cpu" || name == "auto") return absl::OkStatus();
  if (!GpusOf(name).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "device: '", name, "'; must be auto, cpu, cuda, or cuda: with the numbers of up to ",
      cuda::kMostGpus, " GPUs, each once, such as cuda:0 or cuda:0,1"));
}

OpenedDevice OpenDevice(const DeviceOptions& options, DeviceLost lost,
                        const CudaLoader& load_cuda) {
  MILLRACE_RETURN_IF_ERROR(CheckDeviceName(options.name));
  if (options.name == "cpu") return std::make_shared<CpuDevice>(options.threads);
  const bool may_be_cpu = options.name == "auto";
  const std::vector<int> gpus = may_be_cpu ? std::vector<int>{0} : GpusOf(options.name);
  auto gpu = OpenGpusInTime(gpus, options, lost, load_cuda);
  if (gpu.ok()) return gpu;
  const bool hangs = absl::IsDeadlineExceeded(gpu.status());
  if (may_be_cpu && !hangs) {
    std::error_code error;
    const bool has_driver = std::filesystem::exists(kDriver, error);
    LOG_AT_LEVEL(has_driver ? google::GLOG_WARNING : google::GLOG_INFO)
        << "Models run on the CPU: " << gpu.status().message();
    return std::make_shared<CpuDevice>(options.threads);
  }
  return absl::Status(
      hangs ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable,
      absl::StrCat("device: ", gpu.status().message(), "; --device=cpu does without a GPU"));
}

}  // namespace millrace::worker
