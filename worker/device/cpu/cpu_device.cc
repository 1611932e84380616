#include "worker/device/cpu/cpu_device.h"

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "worker/device/cpu/cpu_model.h"
#include "worker/device/cpu/numerics.h"

namespace millrace::worker {

CpuDevice::CpuDevice(int threads) : threads_(threads) { CHECK_GE(threads, 1); }

std::string CpuDevice::description() const {
  return absl::StrCat(name_, "/", threads_, " (", CpuInstructionSet(), ")");
}

absl::StatusOr<std::unique_ptr<Model>> CpuDevice::Compile(const ModelPlan& plan,
                                                          const BatchSizes& batches) {
  return CpuModel::Compile(plan, batches, threads_);
}

}  // namespace millrace::worker
