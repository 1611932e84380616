// The device that the tests of this folder are for: linked in with them.
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_TEST_DEVICE_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_TEST_DEVICE_H_

#include <cstddef>
#include <memory>

#include "worker/device/device.h"

namespace millrace::worker {

// `threads`: of the processor, for devices that compute with them.
std::unique_ptr<Device> MakeTestDevice(int threads);

// Into how many parts it divides a batch. BatchNormalization normalizes by each part's own
// examples.
int TestDeviceParts();

// Units of a dense layer whose values take so long to reach the device that the device could go
// wrong meanwhile; fewer where that takes nothing, or where products take long.
size_t TestDeviceUnits();

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_TEST_DEVICE_H_
