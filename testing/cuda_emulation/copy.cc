// Functions of the runtime that allocate, copy and fill.
#include <cstring>
#include <vector>

#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/runtime_api.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

bool IsDeviceSide(cudaMemcpyKind kind, bool destination) {
  return kind == cudaMemcpyDeviceToDevice ||
         kind == (destination ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
}

// One side of a copy.
cudaError_t CheckSide(const Device& device, const void* memory, size_t bytes, bool on_device,
                      bool waits) {
  const Memory& known = device.memory;
  if (on_device) return known.OnDevice(memory, bytes) ? cudaSuccess : cudaErrorInvalidValue;
  if (known.TouchesDevice(memory)) return cudaErrorInvalidValue;
  if (known.Pinned(memory, 0)) {
    return known.Pinned(memory, bytes) ? cudaSuccess : cudaErrorInvalidValue;
  }
  if (!waits) {
    Fail(
        "cudaMemcpyAsync of host memory that is not pinned: a GPU would copy it while the host "
        "waits");
  }
  return cudaSuccess;
}

cudaError_t EnqueueCopy(Device* device, void* to, const void* from, size_t bytes,
                        cudaStream_t stream) {
  const int to_device = device->memory.DeviceOf(to);
  const int from_device = device->memory.DeviceOf(from);
  const bool to_pinned = device->memory.Pinned(to, bytes);
  const bool from_pinned = device->memory.Pinned(from, bytes);
  const int index = CurrentDevice();
  return Enqueue(device, stream, [=] {
    if (device->lost[index] != cudaSuccess) return true;
    if ((to_pinned && !device->memory.Pinned(to, bytes)) ||
        (from_pinned && !device->memory.Pinned(from, bytes))) {
      Fail("cudaMemcpyAsync of pinned memory that was given back before it was done");
    }
    ++device->counts.copies;
    if (to_device >= 0 && from_device >= 0 && to_device != from_device) {
      ++device->counts.peer_copies;
    }
    device->memory.OpenBoth(to_device, from_device);
    std::memmove(to, from, bytes);
    return true;
  });
}

cudaError_t Copy(Device* device, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, bool waits) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyDefault) {
    kind = static_cast<cudaMemcpyKind>((device->memory.TouchesDevice(to) ? 1 : 0) +
                                       (device->memory.TouchesDevice(from) ? 2 : 0));
  }
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDeviceToDevice) {
    return cudaErrorInvalidMemcpyDirection;
  }
  cudaError_t error = CheckSide(*device, to, bytes, IsDeviceSide(kind, true), waits);
  if (error == cudaSuccess) {
    error = CheckSide(*device, from, bytes, IsDeviceSide(kind, false), waits);
  }
  if (error != cudaSuccess) return error;
  return EnqueueCopy(device, to, from, bytes, stream);
}

cudaError_t CopyPeer(Device* device, void* to, int to_device, const void* from, int from_device,
                     size_t bytes, cudaStream_t stream) {
  const Memory& memory = device->memory;
  if (to_device < 0 || to_device >= device->count || from_device < 0 ||
      from_device >= device->count) {
    return cudaErrorInvalidDevice;
  }
  if (bytes == 0) return cudaSuccess;
  if (!memory.OnDevice(to, bytes) || memory.DeviceOf(to) != to_device ||
      !memory.OnDevice(from, bytes) || memory.DeviceOf(from) != from_device) {
    return cudaErrorInvalidValue;
  }
  return EnqueueCopy(device, to, from, bytes, stream);
}

cudaError_t Fill(Device* device, void* memory, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!device->memory.OnDevice(memory, bytes)) return cudaErrorInvalidValue;
  const int owner = device->memory.DeviceOf(memory);
  return Enqueue(device, stream, [device, memory, value, bytes, owner, index = CurrentDevice()] {
    if (device->lost[index] != cudaSuccess) return true;
    ++device->counts.copies;
    device->memory.OpenBoth(owner, -1);
    std::memset(memory, value, bytes);
    return true;
  });
}

// After what was enqueued in the legacy stream.
cudaError_t WaitForLegacy(Device* device, cudaError_t enqueued, const char* call) {
  if (enqueued != cudaSuccess || device->legacy == nullptr || device->legacy->last == nullptr) {
    return enqueued;
  }
  return Wait(device, device->legacy->last, call);
}

// For the work of its streams; what another device does with its memory goes on.
cudaError_t WaitForCurrentDevice(Device* device, const char* call) {
  std::vector<TaskPointer> last;
  if (device->legacy != nullptr) last.push_back(device->legacy->last);
  for (const CUstream_st* stream : device->streams) {
    if (IsOfCurrentDevice(*device, stream)) last.push_back(stream->last);
  }
  return Wait(device, device->work.Add(nullptr, last), call);
}

}  // namespace
}  // namespace cuda_emulation

using cuda_emulation::Call;
using cuda_emulation::CallUnsafe;
using cuda_emulation::Device;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  bool hangs = false;
  const cudaError_t error = CallUnsafe([&](Device* device) {
    if (memory == nullptr) return cudaErrorInvalidValue;
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    hangs = device->hanging_allocation.Happens();
    if (device->allocation.Happens()) return cudaErrorMemoryAllocation;
    *memory = device->memory.Allocate(cuda_emulation::CurrentDevice(), bytes);
    if (*memory == nullptr) return cudaErrorMemoryAllocation;
    ++device->counts.allocations;
    return cudaSuccess;
  });
  if (hangs) cuda_emulation::NeverReturn();
  return error;
}

// Waits for the device first.
cudaError_t cudaFree(void* memory) {
  return CallUnsafe([&](Device* device) {
    if (memory == nullptr) return cudaSuccess;
    const cudaError_t error = cuda_emulation::WaitForCurrentDevice(device, "cudaFree");
    if (error != cudaSuccess) return error;
    return device->memory.Free(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return CallUnsafe([&](Device* device) {
    if (memory == nullptr || flags > 7) return cudaErrorInvalidValue;
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (device->pinned_allocation.Happens()) return cudaErrorMemoryAllocation;
    *memory = device->memory.AllocatePinned(bytes);
    ++device->counts.pinned_allocations;
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return CallUnsafe([&](Device* device) {
    if (memory == nullptr) return cudaSuccess;
    const cudaError_t error = cuda_emulation::WaitForCurrentDevice(device, "cudaFreeHost");
    if (error != cudaSuccess) return error;
    return device->memory.FreePinned(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return CallUnsafe([&](Device* device) {
    return cuda_emulation::WaitForLegacy(
        device, cuda_emulation::Copy(device, to, from, bytes, kind, nullptr, /*waits=*/true),
        "cudaMemcpy");
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return Call([&](Device* device) {
    return cuda_emulation::Copy(device, to, from, bytes, kind, stream, /*waits=*/false);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  return Call([&](Device* device) {
    return cuda_emulation::CopyPeer(device, to, to_device, from, from_device, bytes, stream);
  });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return CallUnsafe([&](Device* device) {
    return cuda_emulation::WaitForLegacy(
        device, cuda_emulation::Fill(device, memory, value, bytes, nullptr), "cudaMemset");
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return Call(
      [&](Device* device) { return cuda_emulation::Fill(device, memory, value, bytes, stream); });
}
