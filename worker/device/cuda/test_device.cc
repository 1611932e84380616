#include "worker/device/model_tests/test_device.h"

#include "glog/logging.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {

std::unique_ptr<Device> MakeTestDevice(int /*threads*/) {
  auto device = CudaDevice::Open(TestLibrary(), CudaDeviceOptions(), [](const absl::Status&) {});
  CHECK(device.ok()) << device.status();
  return *std::move(device);
}

int TestDeviceParts() { return 1; }

size_t TestDeviceUnits() { return OnRealGpu() ? 2048 : 24; }

}  // namespace millrace::worker
