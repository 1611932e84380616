#include "testing/cuda_emulation/runtime_api.h"
#include "testing/cuda_emulation/stream.h"

using cuda_emulation::Call;
using cuda_emulation::CallUnsafe;
using cuda_emulation::Capture;
using cuda_emulation::Device;
using cuda_emulation::FindStream;

namespace cuda_emulation {
namespace {

cudaError_t RecordInCapture(CUevent_st* event, CUstream_st* stream, bool external) {
  Capture* capture = stream->capture.get();
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (external) {
    capture->nodes.push_back({nullptr, stream->nodes, event});
    stream->nodes = {capture->nodes.size() - 1};
    return cudaSuccess;
  }
  event->capture = stream->capture;
  event->nodes = stream->nodes;
  return cudaSuccess;
}

cudaError_t RecordEvent(Device* device, cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  CUstream_st* stream = FindStream(device, handle);
  if (device->events.count(event) == 0 || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream != device->legacy && event->device != stream->device) {
    return cudaErrorInvalidResourceHandle;
  }
  const bool external = flags == cudaEventRecordExternal;
  if (flags > cudaEventRecordExternal) return cudaErrorInvalidValue;
  if (stream->capture != nullptr) return RecordInCapture(event, stream, external);
  if (external) return cudaErrorInvalidValue;
  const cudaError_t error = Enqueue(device, handle, nullptr);
  if (error != cudaSuccess) return error;
  event->task = stream->last;
  event->polls = 0;
  event->late_for = 0;
  event->capture = nullptr;
  return cudaSuccess;
}

// What is enqueued in the stream belongs to the event's capture from now on.
cudaError_t Join(CUstream_st* stream, CUevent_st* event) {
  const std::shared_ptr<Capture> capture = event->capture;
  if (capture->ended) return cudaErrorCapturedEvent;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture != nullptr && stream->capture != capture) {
    stream->capture->invalid = capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream->capture == nullptr) stream->nodes.clear();
  stream->capture = capture;
  capture->streams.insert(stream);
  stream->nodes.insert(stream->nodes.end(), event->nodes.begin(), event->nodes.end());
  return cudaSuccess;
}

cudaError_t WaitExternally(CUstream_st* stream, CUevent_st* event) {
  if (stream->capture == nullptr) return cudaErrorInvalidValue;
  if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  stream->capture->nodes.push_back({nullptr, stream->nodes, nullptr, event});
  stream->nodes = {stream->capture->nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t WaitEvent(Device* device, cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  CUstream_st* stream = FindStream(device, handle);
  if (device->events.count(event) == 0 || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags > cudaEventWaitExternal) return cudaErrorInvalidValue;
  if (flags == cudaEventWaitExternal) return WaitExternally(stream, event);
  if (event->capture != nullptr) {
    return stream == device->legacy ? cudaErrorStreamCaptureImplicit : Join(stream, event);
  }
  if (InvalidateCapture(stream)) return cudaErrorStreamCaptureIsolation;
  // Late, it is still the record before, which is done.
  if (event->task == nullptr || event->late_for > 0) return cudaSuccess;
  stream->last = device->work.Add(nullptr, {stream->last, event->task});
  return cudaSuccess;
}

// Not allowed for an event of a capture.
bool InvalidateCaptureOf(CUevent_st* event) {
  if (event->capture == nullptr) return false;
  event->capture->invalid = true;
  return true;
}

}  // namespace
}  // namespace cuda_emulation

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Call([&](Device* device) {
    if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
      return cudaErrorInvalidValue;
    }
    *event = new CUevent_st;
    (*event)->device = cuda_emulation::CurrentDevice();
    device->events.insert(*event);
    ++device->counts.events;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Call([&](Device* device) {
    if (device->events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return Call(
      [&](Device* device) { return cuda_emulation::RecordEvent(device, event, stream, flags); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Call(
      [&](Device* device) { return cuda_emulation::WaitEvent(device, stream, event, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return CallUnsafe([&](Device* device) {
    if (device->events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    if (cuda_emulation::InvalidateCaptureOf(event)) return cudaErrorCapturedEvent;
    if (event->late_for > 0) {
      --event->late_for;
      return cudaSuccess;
    }
    return cuda_emulation::Query(device, event->task, &event->polls);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return CallUnsafe([&](Device* device) {
    if (device->events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    if (cuda_emulation::InvalidateCaptureOf(event)) return cudaErrorCapturedEvent;
    if (event->task == nullptr || event->task->done) return cudaSuccess;
    return cuda_emulation::Wait(device, event->task, "cudaEventSynchronize");
  });
}
