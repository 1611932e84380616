#include "testing/cuda_emulation/stream.h"

#include <utility>

#include "testing/cuda_emulation/runtime_api.h"

namespace cuda_emulation {
namespace {

CUstream_st* Legacy(Device* device) {
  if (device->legacy == nullptr) device->legacy = new CUstream_st;
  return device->legacy;
}

// What is enqueued next comes after these.
std::vector<TaskPointer> Before(Device* device, CUstream_st* stream) {
  std::vector<TaskPointer> before = {stream->last};
  if (stream == device->legacy) {
    for (const CUstream_st* other : device->streams) {
      if (other->blocking) before.push_back(other->last);
    }
  } else if (stream->blocking && device->legacy != nullptr) {
    before.push_back(device->legacy->last);
  }
  return before;
}

// Whether work of the legacy stream would have to wait for a captured stream.
bool InvalidateBlockingCaptures(Device* device) {
  bool any = false;
  for (CUstream_st* stream : device->streams) {
    if (stream->blocking && InvalidateCapture(stream)) any = true;
  }
  return any;
}

}  // namespace

CUstream_st* FindStream(Device* device, cudaStream_t stream) {
  if (stream == nullptr) return Legacy(device);
  return device->streams.count(stream) > 0 ? stream : nullptr;
}

bool IsOfCurrentDevice(const Device& device, const CUstream_st* stream) {
  return stream == device.legacy || stream->device == CurrentDevice();
}

bool InvalidateCapture(CUstream_st* stream) {
  if (stream->capture == nullptr) return false;
  stream->capture->invalid = true;
  return true;
}

bool InvalidateCapturesOfCurrentDevice(Device* device) {
  bool any = false;
  for (CUstream_st* stream : device->streams) {
    if (stream->device == CurrentDevice() && InvalidateCapture(stream)) any = true;
  }
  return any;
}

cudaError_t Enqueue(Device* device, cudaStream_t handle, std::function<bool()> run) {
  CUstream_st* stream = FindStream(device, handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream == device->legacy && InvalidateBlockingCaptures(device)) {
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream->capture == nullptr) {
    stream->last = device->work.Add(std::move(run), Before(device, stream));
    return cudaSuccess;
  }
  if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  stream->capture->nodes.push_back({std::move(run), stream->nodes});
  stream->nodes = {stream->capture->nodes.size() - 1};
  return cudaSuccess;
}

}  // namespace cuda_emulation

using cuda_emulation::Call;
using cuda_emulation::CallUnsafe;
using cuda_emulation::Device;
using cuda_emulation::FindStream;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return Call([&](Device* device) {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = new CUstream_st;
    (*stream)->blocking = flags != cudaStreamNonBlocking;
    (*stream)->device = cuda_emulation::CurrentDevice();
    device->streams.insert(*stream);
    return cudaSuccess;
  });
}

// What is enqueued stays so.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Call([&](Device* device) {
    if (device->streams.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
    cuda_emulation::InvalidateCapture(stream);
    if (stream->capture != nullptr) stream->capture->streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return Call([&](Device* device) {
    CUstream_st* stream = FindStream(device, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (cuda_emulation::InvalidateCapture(stream)) return cudaErrorStreamCaptureUnsupported;
    if (stream == device->legacy) {  // Which waits for the blocking ones.
      const cudaError_t error = cuda_emulation::Enqueue(device, handle, nullptr);
      if (error != cudaSuccess) return error;
    }
    if (stream->last == nullptr) return cudaSuccess;
    return cuda_emulation::Wait(device, stream->last, "cudaStreamSynchronize");
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return Call([&](Device* device) {
    CUstream_st* stream = FindStream(device, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (cuda_emulation::InvalidateCapture(stream)) return cudaErrorStreamCaptureUnsupported;
    return cuda_emulation::Query(device, stream->last, &stream->polls);
  });
}

cudaError_t cudaDeviceSynchronize() {
  return CallUnsafe([&](Device* device) {
    if (cuda_emulation::InvalidateCapturesOfCurrentDevice(device)) {
      return cudaErrorStreamCaptureUnsupported;
    }
    return cuda_emulation::Wait(device, nullptr, "cudaDeviceSynchronize");
  });
}
