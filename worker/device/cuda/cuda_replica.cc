#include "worker/device/cuda/cuda_replica.h"

#include <cstring>
#include <utility>

#include "worker/device/cuda/device_state.h"

namespace millrace::worker {
namespace {

using cuda::Stream;

// Whatever happens, what is enqueued afterwards runs again.
template <typename Work>
std::unique_ptr<cuda::Graph> CaptureOf(cuda::Gpu* gpu, const Work& work) {
  gpu->BeginCapture();
  try {
    work();
  } catch (...) {
    try {
      gpu->EndCapture();
    } catch (const cuda::Error&) {  // The first one is told.
    }
    throw;
  }
  return gpu->EndCapture();
}

}  // namespace

CudaReplica::CudaReplica(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places,
                         const BatchSizes& batches, std::unique_ptr<cuda::Gpu> gpu,
                         std::string name)
    : plan_(plan),
      walk_(walk),
      places_(places),
      batches_(batches),
      name_(std::move(name)),
      gpu_(std::move(gpu)),
      layers_(plan_, walk_, gpu_.get()),
      layout_(plan_, walk_, layers_, places_, batches) {}

void CudaReplica::TakeMemory(const HostVariables* host) {
  host_ = host;
  memory_ =
      std::make_unique<MirroredMemory>(gpu_.get(), layout_.mirrored_bytes, layout_.memory.bytes());
  std::memset(memory_->Host<char>(0), 0, layout_.mirrored_bytes);
  ids_ = std::make_unique<CudaIds>(plan_, batches_.largest(), gpu_.get());
  passes_ = std::make_unique<CudaPasses>(plan_, walk_, places_, layers_, &layout_, *memory_, *ids_,
                                         *host, gpu_.get());
  forward_done_ = gpu_->MakeEvent();
  // What is wrong with the passes, and the memory of the code that they run, comes before the first
  // step.
  Prepare(batches_.train, /*training=*/true);
  if (batches_.evaluation > 0) Prepare(batches_.evaluation, /*training=*/false);
}

void CudaReplica::EnqueueInputs(const Batch& batch, uint64_t seed, bool training) {
  gpu_->CopyIn(Stream::kCompute, memory_->Device<char>(layout_.values), host_->values(),
               places_.values_bytes);
  layout_.inputs.Enqueue(batch, seed, /*classes=*/training, *memory_);
  if (!ids_->Take(batch)) return;
  training_graphs_.Clear();
  evaluation_graphs_.Clear();
}

std::unique_ptr<CudaReplica::Graphs> CudaReplica::Capture(size_t batch, bool training) {
  auto graphs = std::make_unique<Graphs>();
  graphs->forward = CaptureOf(gpu_.get(), [&] { passes_->EnqueueForward(batch, training); });
  if (training) {
    graphs->backward = CaptureOf(gpu_.get(), [&] { passes_->EnqueueBackward(batch); });
  }
  return graphs;
}

CudaReplica::Graphs& CudaReplica::Captured(size_t batch, bool training) {
  return GraphsOf(training).Get(batch, [&] { return Capture(batch, training); });
}

void CudaReplica::Prepare(size_t batch, bool training) { Captured(batch, training); }

void CudaReplica::LaunchForward(size_t batch, bool training) {
  if (training) layout_.gradients.BeginStep();
  gpu_->Launch(*Captured(batch, training).forward);
  gpu_->Record(Stream::kCompute, forward_done_.get());
}

void CudaReplica::LaunchBackward(size_t batch) {
  gpu_->Launch(*Captured(batch, /*training=*/true).backward);
}

bool CudaReplica::AwaitForward(double seconds) const {
  return gpu_->HostWaitFor(*forward_done_, seconds);
}

const float* CudaReplica::Output(size_t output) const {
  return memory_->Host<float>(layout_.outputs[output]);
}

const double* CudaReplica::Losses(size_t output) const {
  return memory_->Host<double>(layout_.losses[output]);
}

void CudaReplica::Abandon() {
  KeepForEver(std::make_shared<PerBatch<Graphs>>(std::move(training_graphs_)));
  KeepForEver(std::make_shared<PerBatch<Graphs>>(std::move(evaluation_graphs_)));
  KeepForEver(std::move(ids_));
  KeepForEver(std::move(memory_));
  KeepForEver(std::move(gpu_));
}

}  // namespace millrace::worker
