#include "worker/device/model_tests/test_device.h"

#include "worker/device/cpu/cpu_device.h"

namespace millrace::worker {

std::unique_ptr<Device> MakeTestDevice(int threads) { return std::make_unique<CpuDevice>(threads); }

int TestDeviceParts() { return 1; }

size_t TestDeviceUnits() { return 24; }

}  // namespace millrace::worker
