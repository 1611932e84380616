#include "testing/cuda_emulation/launch.h"

#include <string>

#include "testing/cuda_emulation/block.h"
#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

constexpr unsigned kMostThreads = 1024;
constexpr size_t kMostShared = 48 << 10;

cudaError_t CheckConfiguration(const cudaLaunchConfig_t& config) {
  const dim3& grid = config.gridDim;
  const dim3& block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647 || grid.y > 65535 ||
      grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMostThreads ||
      block.y > kMostThreads || block.z > 64 || block.x * block.y * block.z > kMostThreads) {
    return cudaErrorInvalidConfiguration;
  }
  if (config.dynamicSmemBytes > kMostShared) return cudaErrorInvalidValue;
  if (config.dynamicSmemBytes > 0) Fail("dynamic shared memory is not emulated");
  if (config.numAttrs > 0) Fail("attributes of launches are not emulated");
  return cudaSuccess;
}

void CheckPointers(const Device& device, const void* kernel,
                   const std::vector<const void*>& pointers) {
  for (size_t i = 0; i < pointers.size(); ++i) {
    const void* pointer = pointers[i];
    const int owner = device.memory.DeviceOf(pointer);
    if (pointer == nullptr || owner == CurrentDevice() || device.memory.Pinned(pointer, 0)) {
      continue;
    }
    Fail("kernel " + NameOf(kernel) + " is launched with memory of " +
         (owner >= 0 ? "another device" : "the host, or freed memory,") + " as its " +
         "argument number " + std::to_string(i + 1) + " of those that are pointers");
  }
}

}  // namespace

cudaError_t Launch(const cudaLaunchConfig_t* config, const void* kernel, std::function<void()> body,
                   const std::vector<const void*>& pointers) {
  return Call([&](Device* device) {
    if (config == nullptr) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaError_t error = CheckConfiguration(*config);
    if (error != cudaSuccess) return error;
    const CUstream_st* stream = FindStream(device, config->stream);
    if (stream == nullptr || !IsOfCurrentDevice(*device, stream)) {
      return cudaErrorInvalidResourceHandle;
    }
    CheckPointers(*device, kernel, pointers);
    if (device->launch.Happens()) return device->launch.error;
    ++device->counts.launches;
    const KernelLaunch launch = {kernel, config->gridDim, config->blockDim, std::move(body)};
    return Enqueue(device, config->stream, [device, launch, index = CurrentDevice()] {
      return Execute(device, index, [&] { RunKernel(launch, &device->order); });
    });
  });
}

}  // namespace cuda_emulation
