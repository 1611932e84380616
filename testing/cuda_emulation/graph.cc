#include <utility>

#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/runtime_api.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

// Whether all nodes come before the end of the stream.
bool Joined(const Capture& capture, const CUstream_st& origin) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<size_t> open = origin.nodes;
  size_t count = 0;
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    ++count;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return count == capture.nodes.size();
}

cudaError_t BeginCapture(Device* device, cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (device->streams.count(stream) == 0) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams = {stream};
  stream->capture = capture;
  stream->nodes.clear();
  device->captures.insert(capture.get());
  return cudaSuccess;
}

cudaError_t EndCapture(Device* device, cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream == nullptr || device->streams.count(stream) == 0) {
    return cudaErrorInvalidResourceHandle;
  }
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = Joined(*capture, *stream);
  capture->ended = true;
  device->captures.erase(capture.get());
  for (CUstream_st* each : capture->streams) each->capture = nullptr;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{std::move(capture->nodes)};
  device->graphs.insert(*graph);
  return cudaSuccess;
}

TaskPointer AddNode(Device* device, const GraphNode& node, std::vector<TaskPointer> after) {
  for (CUevent_st* event : {node.record, node.wait}) {
    if (event != nullptr && device->events.count(event) == 0) {
      Fail("a graph is launched whose event was destroyed");
    }
  }
  if (node.wait != nullptr) after.push_back(node.wait->task);
  TaskPointer task = device->work.Add(node.run, after);
  if (node.record != nullptr) {
    node.record->task = task;
    node.record->polls = 0;
    node.record->late_for = device->late_records ? kLateQueries : 0;
    node.record->capture = nullptr;
  }
  return task;
}

// Launches of one graph come one after the other.
cudaError_t LaunchGraph(Device* device, CUgraphExec_st* executable, cudaStream_t handle) {
  CUstream_st* stream = FindStream(device, handle);
  if (device->executables.count(executable) == 0 || stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (InvalidateCapture(stream)) Fail("a graph is launched in a stream that is captured");
  const cudaError_t error = Enqueue(device, handle, nullptr);
  if (error != cudaSuccess) return error;
  ++device->counts.graph_launches;
  const std::vector<TaskPointer> before = {stream->last, executable->last};
  std::vector<TaskPointer> tasks;
  for (const GraphNode& node : executable->nodes) {
    std::vector<TaskPointer> after = before;
    for (size_t i : node.after) after.push_back(tasks[i]);
    tasks.push_back(AddNode(device, node, std::move(after)));
  }
  tasks.insert(tasks.end(), before.begin(), before.end());
  stream->last = executable->last = device->work.Add(nullptr, tasks);
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_emulation

using cuda_emulation::Call;
using cuda_emulation::Device;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Call([&](Device* device) { return cuda_emulation::BeginCapture(device, stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Call([&](Device* device) { return cuda_emulation::EndCapture(device, stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return Call([&](Device* device) {
    const CUstream_st* stream = cuda_emulation::FindStream(device, handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return Call([&](Device* device) {
    // Where work is done in order, priorities change nothing.
    const bool is_known = (flags & ~uint64_t{cudaGraphInstantiateFlagUseNodePriority}) == 0;
    if (device->graphs.count(graph) == 0 || !is_known) return cudaErrorInvalidValue;
    *executable = new CUgraphExec_st{graph->nodes, nullptr};
    device->executables.insert(*executable);
    device->counts.graph_nodes += graph->nodes.size();
    return cudaSuccess;
  });
}

// There is no other place that it could be brought to.
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return Call([&](Device* device) {
    const bool is_known = device->executables.count(executable) > 0 &&
                          cuda_emulation::FindStream(device, stream) != nullptr;
    return is_known ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  bool hangs = false;
  const cudaError_t error = Call([&](Device* device) {
    hangs = device->hanging_graph.Happens();
    return cuda_emulation::LaunchGraph(device, executable, stream);
  });
  if (hangs) cuda_emulation::NeverReturn();
  return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call([&](Device* device) {
    if (device->graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

// What was launched still runs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return Call([&](Device* device) {
    if (device->executables.erase(executable) == 0) return cudaErrorInvalidValue;
    delete executable;
    return cudaSuccess;
  });
}
