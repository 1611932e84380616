// The device that a worker's models run on, as its user names it.
#ifndef MILLRACE_WORKER_DEVICES_H_
#define MILLRACE_WORKER_DEVICES_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/cuda/device_lost.h"
#include "worker/device/cuda/device_state.h"
#include "worker/device/cuda/library.h"
#include "worker/device/device.h"

namespace millrace::worker {

// INVALID_ARGUMENT: `name` is none of "auto", "cpu", "cuda", "cuda:N" and "cuda:N,M,..."; lists
// them.
absl::Status CheckDeviceName(const std::string& name);

// How the CUDA library is found: LoadCudaLibrary.
using CudaLoader = std::function<absl::StatusOr<cuda::Library*>()>;

// Of a GPU: how long it may take for a step, or a call of CUDA to return, before it is lost. For
// making a model and giving it back, see kLeastMakingTimeout.
inline constexpr absl::Duration kDefaultDeviceTimeout = absl::Seconds(120);
inline constexpr absl::Duration kDefaultOpeningTimeout = absl::Minutes(5);
inline constexpr absl::Duration kLeastDeviceTimeout = absl::Milliseconds(1);
inline constexpr absl::Duration kMostDeviceTimeout = absl::Hours(24);

struct DeviceOptions {
  std::string name = "auto";
  int threads = 1;  // Of "cpu".
  // Of GPUs: equal values give equal bits. False: sums in any order, where that is faster.
  bool deterministic = true;
  // Of GPUs: see CudaDeviceOptions.
  absl::Duration timeout = kDefaultDeviceTimeout;
  std::shared_ptr<SharedGpus> shared_gpus = nullptr;
  // Of GPUs: how long opening all of them may take. A driver may compile the kernels anew.
  absl::Duration opening_timeout = kDefaultOpeningTimeout;
};

// "cpu": with so many threads. "cuda:N": that GPU, of those that CUDA_VISIBLE_DEVICES leaves;
// "cuda": the first. "cuda:0,1": several, which share each batch. "auto": the first GPU, or the CPU
// where there is none that can be used, which is logged with the reason. INVALID_ARGUMENT: see
// above. UNAVAILABLE: no such GPU can be used, and why. DEADLINE_EXCEEDED, also of "auto": a call
// to the driver does not return; a thread is left in it, and the process had better end by
// EndProcess.
absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const DeviceOptions& options, DeviceLost lost,
                                                   const CudaLoader& load_cuda);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICES_H_
