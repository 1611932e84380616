#include "worker/device/cpu/cpu_device.h"

#include "glog/logging.h"
#include "worker/device/cpu/cpu_model.h"

namespace millrace::worker {

CpuDevice::CpuDevice(int threads) : threads_(threads) { CHECK_GE(threads, 1); }

absl::StatusOr<std::unique_ptr<Model>> CpuDevice::Compile(const ModelPlan& plan,
                                                          const BatchSizes& batches) {
  return CpuModel::Compile(plan, batches, threads_);
}

}  // namespace millrace::worker
