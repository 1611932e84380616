// What tests say to the emulated device, besides CUDA's own functions. Thread-safe.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_CONTROL_H_
#define MILLRACE_TESTING_CUDA_EMULATION_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "testing/cuda_emulation/runtime_types.h"

namespace cuda_emulation {

// Undoes all that is set below, and a loss of the device. What is allocated stays; work that is
// still queued is dropped.
void Reset();

// In which order threads of a block, blocks of a kernel, and work of several streams run, where
// CUDA leaves it open; follows from the seed alone. 0: forwards, as enqueued. Others: for each
// kernel and each wait forwards, backwards or shuffled. A wait then runs all that may run, or only
// what it waits for.
void SetOrder(uint64_t seed);

// 1 by default, at most kMostDevices. 0: cudaErrorNoDevice. Each has a memory of its own: a kernel
// that reaches into another's stops the process.
inline constexpr int kMostDevices = 8;
void SetDeviceCount(int count);
// Whether devices reach each other's memory without the host's; they do by default.
void SetPeerAccess(bool peer_access);
// As where the driver is too old, or there is none: cudaErrorInsufficientDriver.
void SetDriverMissing();
// As where the kernels are compiled for other GPUs, and the driver cannot make them anew: loading
// one returns cudaErrorUnsupportedPtxVersion.
void SetKernelsMissing();
// Of each device, in bytes; 1 GiB by default.
void SetMemory(size_t bytes);
// Of one.
void SetMemoryOf(int index, size_t bytes);
// What one device is called: "Emulated GPU" by default, at most 255 characters.
void SetNameOf(int index, const std::string& name);

// Whether graphs record events late: the first kLateQueries after a launch, and streams that are
// told to wait before these, find the record before, which is done.
inline constexpr int kLateQueries = 2;
void SetLateRecords(bool late_records);

// Faults. `n` counts from this call, from 1.
// The nth launch of a kernel returns `error`, and does nothing.
void FailLaunch(int n, cudaError_t error = cudaErrorLaunchOutOfResources);
// The nth kernel that runs fails: from then on all calls for its device return `error`, and nothing
// runs on it, as with a lost device.
void FailKernel(int n, cudaError_t error = cudaErrorIllegalAddress);
// The same, of those of one device.
void FailKernelOf(int index, int n, cudaError_t error = cudaErrorIllegalAddress);
// The nth kernel that runs never ends. Who asks hears that it is not ready; who waits for it
// without a limit stops the process with a message.
void HangKernel(int n);
// The nth cudaMalloc never returns, as where the device hangs; Reset does not end it.
void HangAllocation(int n);
// The same of the nth launch of a graph.
void HangGraphLaunch(int n);
// The nth cudaMalloc, or cudaHostAlloc, returns cudaErrorMemoryAllocation.
void FailAllocation(int n);
void FailPinnedAllocation(int n);
// From now on all calls, for all devices, return `error`.
void LoseDevice(cudaError_t error = cudaErrorECCUncorrectable);

// Which products cuBLASLt's heuristics know an algorithm for. kUndivided: for all, but only those
// that do not split sums, as other heuristics might choose.
enum class KnownProducts { kAll, kUndivided, kWithoutBias, kNone };
void SetKnownProducts(KnownProducts known);
// Whether cuBLASLt's RELU epilogues keep what is not a number, of which CUDA's documents say
// nothing; they do by default. Otherwise they make 0 of it.
void SetReluKeepsNan(bool keeps);

// What was made and not yet destroyed.
struct Usage {
  size_t allocations = 0;
  size_t bytes = 0;
  size_t pinned_allocations = 0;
  size_t streams = 0;
  size_t events = 0;
  size_t graphs = 0;  // Both kinds.

  bool operator==(const Usage& other) const = default;
};
Usage InUse();
// For messages of tests.
void PrintTo(const Usage& usage, std::ostream* stream);
// Bytes of one device.
size_t InUseOf(int index);

// Since the process began.
struct Counts {
  uint64_t kernels = 0;   // That ran, in graphs or not.
  uint64_t launches = 0;  // Of kernels, by the host; those that are captured count.
  uint64_t graph_launches = 0;
  uint64_t graph_nodes = 0;  // Of graphs that were made to be launched.
  uint64_t copies = 0;       // And fills, that ran.
  uint64_t peer_copies = 0;  // Of these, those from one device to another.
  // Calls that succeeded.
  uint64_t allocations = 0;         // cudaMalloc
  uint64_t pinned_allocations = 0;  // cudaHostAlloc
  uint64_t events = 0;              // cudaEventCreateWithFlags
  uint64_t blas_handles = 0;        // cublasLtCreate
};
Counts Counted();

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_CONTROL_H_
