#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "worker/device/cuda/kernels/arrays.h"
#include "worker/device/cuda/kernels/gpu.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/nccl_lock.h"
#include "worker/device/cuda/kernels/nccl_sums.h"

namespace millrace::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// What the kernels are compiled for at least (third_party/cuda/cuda.bzl).
constexpr int kLeastMajor = 8;
// For so long the host looks again at once, since most waits are short; then it sleeps in between.
constexpr std::chrono::microseconds kEager(200);
constexpr std::chrono::microseconds kSleep(20);

using EventOwner = HandleOwner<cudaEvent_t, cudaEventDestroy>;
using GraphOwner = HandleOwner<cudaGraph_t, cudaGraphDestroy>;
using RunnableOwner = HandleOwner<cudaGraphExec_t, cudaGraphExecDestroy>;

EventOwner MakeCudaEvent() {
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return EventOwner(event);
}

// What is destroyed by a thread that has no device of its own would use the first one, and take
// memory of it.
struct CudaEvent final : Event {
  CudaEvent(int gpu, bool of_order) : index(gpu), seen(of_order ? nullptr : MakeCudaEvent()) {}
  ~CudaEvent() override { cudaSetDevice(index); }

  const int index;                     // Of the GPU.
  EventOwner seen;                     // By the host, by streams, and by other graphs; null: never.
  EventOwner order = MakeCudaEvent();  // Of work within one capture.
  uint64_t capture = 0;                // That it was last recorded in; 0: in none.
};

struct CudaGraph final : Graph {
  explicit CudaGraph(int gpu) : index(gpu) {}
  ~CudaGraph() override {
    const auto lock = ShareNcclLock();
    cudaSetDevice(index);
    runnable.reset();
  }

  const int index;  // Likewise.
  RunnableOwner runnable;
};

const CudaEvent& Cast(const Event& event) { return static_cast<const CudaEvent&>(event); }

StreamOwner MakeStream(int priority) {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
        "cudaStreamCreateWithPriority");
  return StreamOwner(stream);
}

cudaDeviceProp PropertiesOf(int index) {
  cudaDeviceProp properties = {};
  Check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

void CheckCapability(int index) {
  const cudaDeviceProp properties = PropertiesOf(index);
  if (properties.major >= kLeastMajor) return;
  throw Error(Error::kOther, "GPU " + std::to_string(index) + " (" + properties.name +
                                 ") has compute capability " + std::to_string(properties.major) +
                                 "." + std::to_string(properties.minor) + "; must be at least " +
                                 std::to_string(kLeastMajor) + ".0");
}

std::string WithBytes(const char* call, size_t bytes) {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes";
}

}  // namespace

CudaGpu::CudaGpu(int index, const GpuOptions& options) : index_(index), options_(options) {
  CheckCapability(index);
  const auto lock = ShareNcclLock();
  Use();
  CheckKernelsLoad();
  int least = 0;
  int greatest = 0;
  Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  compute_ = MakeStream(least);
  // What leaves is waited for elsewhere.
  copy_out_ = MakeStream(greatest);
  exchange_ = MakeStream(greatest);
  // Nothing begins before what arrives is there.
  copy_in_ = MakeStream(greatest);
  products_ = Products::Make(compute_.get(), options_.deterministic);
}

CudaGpu::~CudaGpu() {
  cudaSetDevice(index_);
  cudaGraph_t graph = nullptr;
  if (capturing_ && cudaStreamEndCapture(compute_.get(), &graph) == cudaSuccess) {
    cudaGraphDestroy(graph);
  }
  capture_lock_ = {};
  cudaStreamSynchronize(compute_.get());
  cudaStreamSynchronize(copy_in_.get());
  cudaStreamSynchronize(copy_out_.get());
  cudaStreamSynchronize(exchange_.get());
  cudaGetLastError();  // Whoever waited for that work was told.
  const auto lock = ShareNcclLock();
  products_.reset();
}

void CudaGpu::Use() const { Check(cudaSetDevice(index_), "cudaSetDevice"); }

cudaStream_t CudaGpu::Of(Stream stream) const {
  switch (stream) {
    case Stream::kCompute:
      return compute_.get();
    case Stream::kCopyIn:
      return copy_in_.get();
    case Stream::kExchange:
      return exchange_.get();
    case Stream::kCopyOut:
      break;
  }
  return copy_out_.get();
}

GpuProperties CudaGpu::Properties() {
  Use();
  const cudaDeviceProp properties = PropertiesOf(index_);
  size_t free = 0;
  size_t total = 0;
  Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  GpuProperties told;
  told.name = properties.name;
  told.major = properties.major;
  told.minor = properties.minor;
  told.memory = total;
  told.free = free;
  told.release = "CUDA " + CudaVersion(CUDART_VERSION);
  told.products = Products::LibraryName();
  told.deterministic = options_.deterministic;
  return told;
}

void* CudaGpu::Allocate(size_t bytes) {
  const auto lock = ShareNcclLock();
  Use();
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), WithBytes("cudaMalloc", bytes).c_str());
  return memory;
}

// Of an error who waited for the work was told.
void CudaGpu::Free(void* memory) noexcept {
  const auto lock = ShareNcclLock();
  cudaSetDevice(index_);
  cudaFree(memory);
}

void* CudaGpu::AllocatePinned(size_t bytes) {
  const auto lock = ShareNcclLock();
  Use();
  void* memory = nullptr;
  Check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault),
        WithBytes("cudaHostAlloc", bytes).c_str());
  return memory;
}

void CudaGpu::FreePinned(void* memory) noexcept {
  const auto lock = ShareNcclLock();
  cudaSetDevice(index_);
  cudaFreeHost(memory);
}

// Uses nothing that changes once the GPU is made.
void CudaGpu::CopyIn(Stream stream, void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  Use();
  Check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, Of(stream)),
        "cudaMemcpyAsync to the device");
}

void CudaGpu::CopyOut(Stream stream, void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  Use();
  Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, Of(stream)),
        "cudaMemcpyAsync from the device");
}

void CudaGpu::CopyWithin(Stream stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  Use();
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, Of(stream)),
        "cudaMemcpyAsync within the device");
}

// What is refused is no error: the copies are slower.
void CudaGpu::Reach(const Gpu& peer) {
  const auto lock = ShareNcclLock();
  Use();
  const int index = static_cast<const CudaGpu&>(peer).index_;
  int can = 0;
  Check(cudaDeviceCanAccessPeer(&can, index_, index), "cudaDeviceCanAccessPeer");
  if (can != 0 && cudaDeviceEnablePeerAccess(index, /*flags=*/0) != cudaSuccess) {
    cudaGetLastError();
  }
}

void CudaGpu::CopyFrom(Stream stream, void* device, const Gpu& peer, const void* from,
                       size_t bytes) {
  if (bytes == 0) return;
  Use();
  Check(cudaMemcpyPeerAsync(device, index_, from, static_cast<const CudaGpu&>(peer).index_, bytes,
                            Of(stream)),
        "cudaMemcpyPeerAsync");
}

// The first time it loads its kernel.
void CudaGpu::Sum(Stream stream, const std::vector<const float*>& parts, size_t count, float* sum) {
  std::shared_lock<std::shared_timed_mutex> lock;
  if (!std::exchange(summed_, true)) lock = ShareNcclLock();
  Use();
  cuda::AddUp(Of(stream), parts, count, sum);
}

// The first time it loads its kernel; while a graph is captured the lock is shared already.
void CudaGpu::MarkNotFinite(Stream stream, const float* values, size_t count, uint64_t* mark) {
  if (count == 0) return;
  std::shared_lock<std::shared_timed_mutex> lock;
  if (!capturing_ && !std::exchange(looked_, true)) lock = ShareNcclLock();
  Use();
  cuda::MarkNotFinite(Of(stream), values, count, mark);
}

std::unique_ptr<PieceSums> CudaGpu::MakePieceSums(const std::vector<Gpu*>& gpus) {
  Use();
  std::vector<NcclMember> members;
  for (Gpu* const each : gpus) {
    const auto* const gpu = static_cast<const CudaGpu*>(each);
    members.push_back({gpu->index_, [gpu](Stream stream) { return gpu->Of(stream); }});
  }
  return MakeNcclSums(std::move(members));
}

std::unique_ptr<Event> CudaGpu::MakeEvent() {
  Use();
  return std::make_unique<CudaEvent>(index_, /*of_order=*/false);
}

std::unique_ptr<Event> CudaGpu::MakeOrderEvent() {
  Use();
  return std::make_unique<CudaEvent>(index_, /*of_order=*/true);
}

void CudaGpu::Record(Stream stream, Event* event) {
  Use();
  CudaEvent& recorded = *static_cast<CudaEvent*>(event);
  recorded.capture = capturing_ ? captures_ : 0;
  if (!capturing_)
    return Check(cudaEventRecord(recorded.seen.get(), Of(stream)), "cudaEventRecord");
  if (recorded.seen != nullptr) {
    Check(cudaEventRecordWithFlags(recorded.seen.get(), Of(stream), cudaEventRecordExternal),
          "cudaEventRecordWithFlags");
  }
  // The last one: who waits for the event has then waited for all of the stream's work.
  Check(cudaEventRecord(recorded.order.get(), Of(stream)), "cudaEventRecord");
}

void CudaGpu::WaitFor(Stream stream, const Event& event) {
  Use();
  const CudaEvent& awaited = Cast(event);
  const bool same_capture = capturing_ && awaited.capture == captures_;
  Check(cudaStreamWaitEvent(Of(stream), same_capture ? awaited.order.get() : awaited.seen.get(),
                            capturing_ && !same_capture ? cudaEventWaitExternal : 0),
        "cudaStreamWaitEvent");
}

bool CudaGpu::HostWaitFor(const Event& event, double seconds) {
  Use();
  const Clock::time_point begin = Clock::now();
  while (true) {
    const cudaError_t state = cudaEventQuery(Cast(event).seen.get());
    if (state != cudaErrorNotReady) {
      Check(state, "cudaEventQuery");
      return true;
    }
    const Clock::duration waited = Clock::now() - begin;
    if (waited >= std::chrono::duration<double>(seconds)) return false;
    if (waited < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
}

// Relaxed: what is first used while work is captured may be loaded.
void CudaGpu::BeginCapture() {
  auto lock = ShareNcclLock();
  Use();
  Check(cudaStreamBeginCapture(compute_.get(), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  capture_lock_ = std::move(lock);
  capturing_ = true;
  ++captures_;
}

std::unique_ptr<Graph> CudaGpu::EndCapture() {
  const auto lock = std::move(capture_lock_);
  Use();
  capturing_ = false;
  cudaGraph_t captured = nullptr;
  Check(cudaStreamEndCapture(compute_.get(), &captured), "cudaStreamEndCapture");
  const GraphOwner owner(captured);
  cudaGraphExec_t instance = nullptr;
  // Otherwise all of its kernels would have the compute stream's priority.
  Check(cudaGraphInstantiate(&instance, captured, cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  RunnableOwner runnable(instance);
  // Otherwise its first launch would bring it to the device, and take its memory there. Before the
  // graph is made: should this fail, it would ask for the lock that is held here.
  Check(cudaGraphUpload(instance, compute_.get()), "cudaGraphUpload");
  auto graph = std::make_unique<CudaGraph>(index_);
  graph->runnable = std::move(runnable);
  return graph;
}

void CudaGpu::Launch(const Graph& graph) {
  Use();
  Check(cudaGraphLaunch(static_cast<const CudaGraph&>(graph).runnable.get(), compute_.get()),
        "cudaGraphLaunch");
}

void CudaGpu::Add(const float* part, size_t count, float* sum) {
  Use();
  cuda::Add(compute_.get(), part, count, sum);
}

void CudaGpu::Divide(float by, size_t count, float* values) {
  Use();
  cuda::Divide(compute_.get(), by, count, values);
}

void CudaGpu::ToFloats(const uint8_t* bytes, size_t count, float* floats) {
  Use();
  cuda::ToFloats(compute_.get(), bytes, count, floats);
}

void CudaGpu::AddRegularizers(const std::vector<Regularized>& variables) {
  Use();
  cuda::AddRegularizers(compute_.get(), variables);
}

}  // namespace millrace::cuda
