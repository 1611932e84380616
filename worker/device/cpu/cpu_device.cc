#include "worker/device/cpu/cpu_device.h"

#include "glog/logging.h"
#include "worker/device/cpu/cpu_model.h"

namespace millrace::worker {

CpuDevice::CpuDevice(int threads) : threads_(threads) { CHECK_GE(threads, 1); }

absl::StatusOr<std::unique_ptr<Model>> CpuDevice::Compile(const ModelPlan& plan, size_t max_batch) {
  return CpuModel::Compile(plan, max_batch, threads_);
}

}  // namespace millrace::worker
