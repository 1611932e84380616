// Functions that say what there is.
#include <cstdio>
#include <mutex>
#include <string>

#include "testing/cuda_emulation/device.h"
#include "testing/cuda_emulation/runtime_api.h"

namespace cuda_emulation {
namespace {

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
  const std::string& name = device.names[index];
  std::snprintf(properties->name, sizeof(properties->name), "%s",
                name.empty() ? "Emulated GPU" : name.c_str());
  properties->totalGlobalMem = device.memory.limit(index);
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
  return cuda_emulation::CallFor(index, [&](Device* device) {
    if (!cuda_emulation::IsDevice(*device, index)) return cudaErrorInvalidDevice;
    cuda_emulation::SetCurrentDevice(index);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* index) {
  return Call([&](Device*) {
    *index = cuda_emulation::CurrentDevice();
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

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  return Call([&](Device* device) {
    *attributes = {};
    return device->kernels;
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
    const int current = cuda_emulation::CurrentDevice();
    *total = device->memory.limit(current);
    *free = *total - device->memory.used(current);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int index, int peer) {
  return Call([&](Device* device) {
    if (!cuda_emulation::IsDevice(*device, index) || !cuda_emulation::IsDevice(*device, peer)) {
      return cudaErrorInvalidDevice;
    }
    *can = device->peer_access && index != peer ? 1 : 0;
    return cudaSuccess;
  });
}

// What it would make faster is not emulated: a second time is an error all the same.
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return Call([&](Device* device) {
    const int current = cuda_emulation::CurrentDevice();
    if (!cuda_emulation::IsDevice(*device, peer) || peer == current) return cudaErrorInvalidDevice;
    if (flags != 0) return cudaErrorInvalidValue;
    if (!device->peer_access) return cudaErrorPeerAccessUnsupported;
    return device->peers.insert({current, peer}).second ? cudaSuccess
                                                        : cudaErrorPeerAccessAlreadyEnabled;
  });
}
