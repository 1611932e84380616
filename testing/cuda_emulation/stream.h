// Streams, events and graphs.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_STREAM_H_
#define MILLRACE_TESTING_CUDA_EMULATION_STREAM_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "testing/cuda_emulation/device.h"
#include "testing/cuda_emulation/runtime_types.h"
#include "testing/cuda_emulation/work.h"

// One piece of work of a graph.
struct GraphNode {
  std::function<bool()> run;     // As Task's.
  std::vector<size_t> after;     // Nodes before it.
  cudaEvent_t record = nullptr;  // Each launch records it when this node is reached.
  cudaEvent_t wait = nullptr;    // Each launch waits for what it was recorded for by then.
};

struct CUgraph_st {
  std::vector<GraphNode> nodes;
};

struct CUgraphExec_st {
  std::vector<GraphNode> nodes;
  cuda_emulation::TaskPointer last;  // The end of its latest launch.
};

namespace cuda_emulation {

struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool invalid = false;
  bool ended = false;
  std::vector<GraphNode> nodes;
  std::set<cudaStream_t> streams;
};

}  // namespace cuda_emulation

struct CUstream_st {
  bool blocking = true;  // Takes turns with the legacy stream.
  int device = 0;        // Of the legacy stream: any.
  int polls = 0;
  cuda_emulation::TaskPointer last;  // The latest that was enqueued.
  std::shared_ptr<cuda_emulation::Capture> capture;
  std::vector<size_t> nodes;  // What comes next is after these, in the capture.
};

struct CUevent_st {
  int device = 0;
  cuda_emulation::TaskPointer task;  // Null: not recorded, or there was no work before it.
  int polls = 0;
  int late_for = 0;                                  // So many queries do not find the task yet.
  std::shared_ptr<cuda_emulation::Capture> capture;  // Where it was recorded; null: in none.
  std::vector<size_t> nodes;
};

namespace cuda_emulation {

// Null is the legacy stream. Null is returned for what is no stream.
CUstream_st* FindStream(Device* device, cudaStream_t stream);

// Enqueues, or captures. REQUIRES: the lock.
cudaError_t Enqueue(Device* device, cudaStream_t stream, std::function<bool()> run);

// Whether the stream is the current device's; the legacy one is every device's.
bool IsOfCurrentDevice(const Device& device, const CUstream_st* stream);

// Whether the stream is captured; then its capture becomes invalid.
bool InvalidateCapture(CUstream_st* stream);

// What waits for a whole device does that to all of its captures, whoever they are, in each mode.
// Whether there are any.
bool InvalidateCapturesOfCurrentDevice(Device* device);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_STREAM_H_
