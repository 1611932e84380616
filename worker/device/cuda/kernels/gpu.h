// One GPU by CUDA's runtime: its streams, events, graphs and memory. What it does with layers is in
// gpu_members.cu.
//
// Events. CUDA has two kinds of recording while work is captured: one orders the captured work, the
// other becomes a part of the graph, and is seen from outside whenever the graph runs. An event
// here stands for both, so it has two of CUDA's; an order event stands for the first alone.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_GPU_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_GPU_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "worker/device/cuda/kernels/handles.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/products.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {

class CudaGpu final : public Gpu {
 public:
  // REQUIRES: there is a GPU `index`. Throws Error where it is too old for these kernels.
  CudaGpu(int index, const GpuOptions& options);
  ~CudaGpu() override;

  GpuProperties Properties() override;
  std::vector<std::string> ChosenProducts() override { return products_->Chosen(); }

  void* Allocate(size_t bytes) override;
  void Free(void* memory) noexcept override;
  void* AllocatePinned(size_t bytes) override;
  void FreePinned(void* memory) noexcept override;

  void CopyIn(Stream stream, void* device, const void* host, size_t bytes) override;
  void CopyOut(Stream stream, void* host, const void* device, size_t bytes) override;
  void CopyWithin(Stream stream, void* to, const void* from, size_t bytes) override;

  void Reach(const Gpu& peer) override;
  void CopyFrom(Stream stream, void* device, const Gpu& peer, const void* from,
                size_t bytes) override;
  void Sum(Stream stream, const std::vector<const float*>& parts, size_t count,
           float* sum) override;
  void MarkNotFinite(Stream stream, const float* values, size_t count, uint64_t* mark) override;

  std::unique_ptr<PieceSums> MakePieceSums(const std::vector<Gpu*>& gpus) override;

  std::unique_ptr<Event> MakeEvent() override;
  std::unique_ptr<Event> MakeOrderEvent() override;
  void Record(Stream stream, Event* event) override;
  void WaitFor(Stream stream, const Event& event) override;
  bool HostWaitFor(const Event& event, double seconds) override;

  void BeginCapture() override;
  std::unique_ptr<Graph> EndCapture() override;
  void Launch(const Graph& graph) override;

  void Add(const float* part, size_t count, float* sum) override;
  void Divide(float by, size_t count, float* values) override;
  void ToFloats(const uint8_t* bytes, size_t count, float* floats) override;
  void AddRegularizers(const std::vector<Regularized>& variables) override;

  std::unique_ptr<Layer> Make(const LayerDescription& description) override;
  std::unique_ptr<Loss> Make(const LossDescription& description) override;

 private:
  // Makes the device the thread's own, which calls of CUDA go to.
  void Use() const;
  cudaStream_t Of(Stream stream) const;
  Context context() const { return {compute_.get(), products_.get(), options_.deterministic}; }

  const int index_;
  const GpuOptions options_;
  StreamOwner compute_;
  StreamOwner copy_in_;
  StreamOwner copy_out_;
  StreamOwner exchange_;
  std::unique_ptr<Products> products_;
  bool summed_ = false;  // Ever; likewise
  bool looked_ = false;  // whether values are finite, but in a graph.
  bool capturing_ = false;
  std::shared_lock<std::shared_timed_mutex> capture_lock_;  // NCCL's (nccl_lock.h), while it does.
  uint64_t captures_ = 0;                                   // Begun so far.
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_GPU_H_
