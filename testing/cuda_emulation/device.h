// The emulated devices: what all functions of the runtime share.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_DEVICE_H_
#define MILLRACE_TESTING_CUDA_EMULATION_DEVICE_H_

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/memory.h"
#include "testing/cuda_emulation/order.h"
#include "testing/cuda_emulation/runtime_types.h"
#include "testing/cuda_emulation/work.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace cuda_emulation {

// Happens when it has been counted down to 0; below that: never.
struct Fault {
  int countdown = -1;
  cudaError_t error = cudaSuccess;

  // Counts; true: it happens now.
  bool Happens() {
    if (countdown <= 0) return false;
    return --countdown == 0;
  }
};

struct Capture;

// All of them. Guarded by `mutex`, which is held while work runs, too.
struct Device {
  std::mutex mutex;
  Order order{0};
  Work work;
  Memory memory;
  Counts counts;
  int count = 1;
  std::array<cudaError_t, kMostDevices> lost = {};  // Not success: what all calls for it return.
  bool peer_access = true;
  bool late_records = false;
  std::set<std::pair<int, int>> peers;  // For which it was enabled.
  bool driver = true;
  cudaError_t kernels = cudaSuccess;            // What loading one comes to.
  std::array<std::string, kMostDevices> names;  // Empty: as all are called.
  KnownProducts products = KnownProducts::kAll;
  bool relu_keeps_nan = true;
  Fault launch, kernel, hang, allocation, pinned_allocation, hanging_allocation, hanging_graph;
  std::array<Fault, kMostDevices> kernel_of;

  CUstream_st* legacy = nullptr;  // The stream that is called null; made at the first use.
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> executables;
  std::set<Capture*> captures;  // That have not ended.
};

Device& TheDevice();

// The one that this thread's calls are for.
int CurrentDevice();
void SetCurrentDevice(int index);

// What a function of the runtime does: `body` under the lock. Remembers its error for
// cudaGetLastError.
cudaError_t Call(const std::function<cudaError_t(Device*)>& body);

// The same for another device than the thread's.
cudaError_t CallFor(int index, const std::function<cudaError_t(Device*)>& body);

// As Call, for what is not allowed while streams are captured, unless relaxed: the captures become
// invalid.
cudaError_t CallUnsafe(const std::function<cudaError_t(Device*)>& body);

// What a call does that hangs.
[[noreturn]] void NeverReturn();

// Of functions that work without a device.
cudaError_t Remember(cudaError_t error);

// Waits for a task, or for all (null). Stops the process where that would be for ever.
// REQUIRES: the lock.
cudaError_t Wait(Device* device, const TaskPointer& target, const char* call);

// Asks whether a task is done: no, but if asked again, it is, unless it never ends.
cudaError_t Query(Device* device, const TaskPointer& target, int* polls);

// Runs a kernel of a device now; false: it never ends. REQUIRES: the lock.
bool Execute(Device* device, int index, const std::function<void()>& kernel);

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_DEVICE_H_
