#include "testing/cuda_emulation/device.h"

#include <chrono>
#include <string>
#include <thread>

#include "testing/cuda_emulation/fail.h"
#include "testing/cuda_emulation/nccl_comms.h"
#include "testing/cuda_emulation/runtime_api.h"
#include "testing/cuda_emulation/stream.h"

namespace cuda_emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

cudaError_t Locked(int index, bool unsafe, const std::function<cudaError_t(Device*)>& body) {
  Device& device = TheDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  if (!device.driver) return Remember(cudaErrorInsufficientDriver);
  if (device.count == 0) return Remember(cudaErrorNoDevice);
  if (device.lost[index] != cudaSuccess) return Remember(device.lost[index]);
  bool forbidden = false;
  for (Capture* capture : device.captures) {
    const bool here = capture->thread == std::this_thread::get_id();
    if (!unsafe || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && !here) continue;
    capture->invalid = forbidden = true;
  }
  return Remember(forbidden ? cudaErrorStreamCaptureUnsupported : body(&device));
}

bool Run(Device* device, const TaskPointer& target) {
  const bool done = device->work.RunUntil(
      target, &device->order, [device] { return device->lost[CurrentDevice()] != cudaSuccess; });
  device->memory.Close();
  return done;
}

}  // namespace

Device& TheDevice() {
  static auto* device = new Device;
  return *device;
}

int CurrentDevice() { return current_device; }

void SetCurrentDevice(int index) { current_device = index; }

cudaError_t Call(const std::function<cudaError_t(Device*)>& body) {
  return Locked(CurrentDevice(), false, body);
}

cudaError_t CallFor(int index, const std::function<cudaError_t(Device*)>& body) {
  return Locked(index >= 0 && index < kMostDevices ? index : 0, false, body);
}

cudaError_t CallUnsafe(const std::function<cudaError_t(Device*)>& body) {
  return Locked(CurrentDevice(), true, body);
}

void NeverReturn() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t Wait(Device* device, const TaskPointer& target, const char* call) {
  const bool done = Run(device, target);
  if (device->lost[CurrentDevice()] != cudaSuccess) return device->lost[CurrentDevice()];
  if (!done) Fail(std::string(call) + " would wait for ever: HangKernel");
  return cudaSuccess;
}

cudaError_t Query(Device* device, const TaskPointer& target, int* polls) {
  if (target == nullptr || target->done) return cudaSuccess;
  if (++*polls % 2 == 1) return cudaErrorNotReady;
  const bool done = Run(device, target);
  if (device->lost[CurrentDevice()] != cudaSuccess) return device->lost[CurrentDevice()];
  return done ? cudaSuccess : cudaErrorNotReady;
}

bool Execute(Device* device, int index, const std::function<void()>& kernel) {
  if (device->lost[index] != cudaSuccess) return true;
  if (device->hang.Happens()) return false;
  for (Fault* fault : {&device->kernel, &device->kernel_of[index]}) {
    if (!fault->Happens()) continue;
    device->lost[index] = fault->error;
    return true;
  }
  ++device->counts.kernels;
  device->memory.OpenOnly(index);
  kernel();
  return true;
}

void Reset() {
  Device& device = TheDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  device.order = Order(0);
  device.work.Drop();
  device.memory.set_limit(Memory().limit(0));
  device.count = 1;
  device.lost = {};
  device.driver = true;
  device.kernels = cudaSuccess;
  device.names = {};
  device.peer_access = true;
  device.late_records = false;
  device.kernel_of = {};
  device.products = KnownProducts::kAll;
  device.relu_keeps_nan = true;
  device.launch = device.kernel = device.hang = {};
  device.allocation = device.pinned_allocation = {};
  device.hanging_allocation = device.hanging_graph = {};
  Nccl& nccl = TheNccl();
  nccl.missing = false;
  nccl.version = NCCL_VERSION_CODE;
  nccl.init = nccl.group = nccl.sum = {};
  last_error = cudaSuccess;
  SetCurrentDevice(0);
}

namespace {

void Set(const std::function<void(Device*)>& change) {
  const std::lock_guard<std::mutex> lock(TheDevice().mutex);
  change(&TheDevice());
}

}  // namespace

void SetOrder(uint64_t seed) {
  Set([&](Device* device) { device->order = Order(seed); });
}
void SetDeviceCount(int count) {
  if (count > kMostDevices) Fail("more than " + std::to_string(kMostDevices) + " devices");
  Set([&](Device* device) { device->count = count; });
}
void SetPeerAccess(bool peer_access) {
  Set([&](Device* device) { device->peer_access = peer_access; });
}
void SetLateRecords(bool late_records) {
  Set([&](Device* device) { device->late_records = late_records; });
}
void SetDriverMissing() {
  Set([&](Device* device) { device->driver = false; });
}
void SetKernelsMissing() {
  Set([&](Device* device) { device->kernels = cudaErrorUnsupportedPtxVersion; });
}
void SetKnownProducts(KnownProducts known) {
  Set([&](Device* device) { device->products = known; });
}
void SetReluKeepsNan(bool keeps) {
  Set([&](Device* device) { device->relu_keeps_nan = keeps; });
}
void SetMemory(size_t bytes) {
  Set([&](Device* device) { device->memory.set_limit(bytes); });
}
void SetMemoryOf(int index, size_t bytes) {
  Set([&](Device* device) { device->memory.set_limit(index, bytes); });
}
void SetNameOf(int index, const std::string& name) {
  Set([&](Device* device) { device->names.at(index) = name; });
}
void FailLaunch(int n, cudaError_t error) {
  Set([&](Device* device) { device->launch = {n, error}; });
}
void FailKernel(int n, cudaError_t error) {
  Set([&](Device* device) { device->kernel = {n, error}; });
}
void FailKernelOf(int index, int n, cudaError_t error) {
  Set([&](Device* device) { device->kernel_of.at(index) = {n, error}; });
}
void HangKernel(int n) {
  Set([&](Device* device) { device->hang = {n, cudaSuccess}; });
}
void HangAllocation(int n) {
  Set([&](Device* device) { device->hanging_allocation = {n, cudaSuccess}; });
}
void HangGraphLaunch(int n) {
  Set([&](Device* device) { device->hanging_graph = {n, cudaSuccess}; });
}
void FailAllocation(int n) {
  Set([&](Device* device) { device->allocation = {n, cudaErrorMemoryAllocation}; });
}
void FailPinnedAllocation(int n) {
  Set([&](Device* device) { device->pinned_allocation = {n, cudaErrorMemoryAllocation}; });
}
void LoseDevice(cudaError_t error) {
  Set([&](Device* device) { device->lost.fill(error); });
}

void PrintTo(const Usage& usage, std::ostream* stream) {
  *stream << usage.allocations << " allocations (" << usage.bytes << " bytes), "
          << usage.pinned_allocations << " pinned ones, " << usage.streams << " streams, "
          << usage.events << " events, " << usage.graphs << " graphs";
}

Usage InUse() {
  Usage usage;
  Set([&](Device* device) {
    usage.allocations = device->memory.allocations();
    usage.bytes = device->memory.used();
    usage.pinned_allocations = device->memory.pinned_allocations();
    usage.streams = device->streams.size();
    usage.events = device->events.size();
    usage.graphs = device->graphs.size() + device->executables.size();
  });
  return usage;
}

size_t InUseOf(int index) {
  size_t bytes = 0;
  Set([&](Device* device) { bytes = device->memory.used(index); });
  return bytes;
}

Counts Counted() {
  Counts counts;
  Set([&](Device* device) { counts = device->counts; });
  return counts;
}

}  // namespace cuda_emulation

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  cuda_emulation::last_error = cudaSuccess;
  return error;
}

// A lost device stays so.
cudaError_t cudaPeekAtLastError() {
  cudaError_t lost = cudaSuccess;
  cuda_emulation::Set([&](cuda_emulation::Device* device) {
    lost = device->lost[cuda_emulation::CurrentDevice()];
  });
  return lost != cudaSuccess ? lost : cuda_emulation::last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define CUDA_EMULATION_NAME(name, value, text) \
  case name:                                   \
    return #name;
    CUDA_EMULATION_ERRORS(CUDA_EMULATION_NAME)
#undef CUDA_EMULATION_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define CUDA_EMULATION_TEXT(name, value, text) \
  case name:                                   \
    return text;
    CUDA_EMULATION_ERRORS(CUDA_EMULATION_TEXT)
#undef CUDA_EMULATION_TEXT
  }
  return "unrecognized error code";
}
