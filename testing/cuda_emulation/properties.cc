// Functions that say what there is.
#include <cstdio>
#include <mutex>

#include "testing/cuda_emulation/device.h"
#include "testing/cuda_emulation/runtime_api.h"

namespace cuda_emulation {
namespace {

thread_local int current_device = 0;

int Attribute(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrWarpSize:
      return warpSize;
    case cudaDevAttrMultiProcessorCount:
      return 4;
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
  }
  return -1;
}

void Describe(const Device& device, int index, cudaDeviceProp* properties) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
  properties->totalGlobalMem = device.memory.limit();
  properties->sharedMemPerBlock = Attribute(cudaDevAttrMaxSharedMemoryPerBlock);
  properties->warpSize = warpSize;
  properties->maxThreadsPerBlock = Attribute(cudaDevAttrMaxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] =
        Attribute(static_cast<cudaDeviceAttr>(cudaDevAttrMaxBlockDimX + i));
    properties->maxGridSize[i] = Attribute(static_cast<cudaDeviceAttr>(cudaDevAttrMaxGridDimX + i));
  }
  properties->major = Attribute(cudaDevAttrComputeCapabilityMajor);
  properties->minor = Attribute(cudaDevAttrComputeCapabilityMinor);
  properties->multiProcessorCount = Attribute(cudaDevAttrMultiProcessorCount);
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->pciBusID = index;
}

bool IsDevice(const Device& device, int index) { return index >= 0 && index < device.count; }

}  // namespace
}  // namespace cuda_emulation

using cuda_emulation::Call;
using cuda_emulation::Device;
using cuda_emulation::Remember;

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Remember(cudaErrorInvalidValue);
  Device& device = cuda_emulation::TheDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  *version = device.driver ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return Call([&](Device* device) {
    *count = device->count;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int index) {
  return Call([&](Device* device) {
    if (!cuda_emulation::IsDevice(*device, index)) return cudaErrorInvalidDevice;
    cuda_emulation::current_device = index;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* index) {
  return Call([&](Device*) {
    *index = cuda_emulation::current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  return Call([&](Device* device) {
    if (!cuda_emulation::IsDevice(*device, index)) return cudaErrorInvalidDevice;
    cuda_emulation::Describe(*device, index, properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  return Call([&](Device* device) {
    if (!cuda_emulation::IsDevice(*device, index)) return cudaErrorInvalidDevice;
    *value = cuda_emulation::Attribute(attribute);
    return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call([&](Device*) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Call([&](Device* device) {
    *total = device->memory.limit();
    *free = *total - device->memory.used();
    return cudaSuccess;
  });
}
