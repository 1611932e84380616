#include "glog/logging.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {

std::unique_ptr<Device> MakeTestDevice(int /*threads*/) {
  cuda_emulation::SetDeviceCount(2);
  CudaDeviceOptions options;
  options.gpus = {0, 1};
  auto device = CudaDevice::Open(TestLibrary(/*gpus=*/2), options, [](const absl::Status&) {});
  CHECK(device.ok()) << device.status();
  return *std::move(device);
}

int TestDeviceParts() { return 2; }

size_t TestDeviceUnits() { return OnRealGpu(/*gpus=*/2) ? 2048 : 24; }

}  // namespace millrace::worker
