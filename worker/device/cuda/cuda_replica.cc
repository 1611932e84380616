#include "worker/device/cuda/cuda_replica.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
                                         gpu_.get());
  values_there_ = gpu_->MakeEvent();
  forward_done_ = gpu_->MakeEvent();
  backward_done_ = gpu_->MakeEvent();
}

void CudaReplica::CopyInValues(size_t begin, size_t bytes) {
  gpu_->CopyIn(Stream::kCopyIn, memory_->Device<char>(layout_.values + begin),
               static_cast<const char*>(host_->values()) + begin, bytes);
}

void CudaReplica::EnqueueInputs(const Batch& batch, uint64_t seed, bool training) {
  gpu_->Record(Stream::kCopyIn, values_there_.get());
  gpu_->WaitFor(Stream::kCompute, *values_there_);
  layout_.inputs.Enqueue(batch, seed, /*classes=*/training, *memory_);
  if (!ids_->Take(batch)) return;
  training_graphs_.Clear();
  evaluation_graphs_.Clear();
}

std::unique_ptr<CudaReplica::Graphs> CudaReplica::CaptureForward(size_t batch, bool training) {
  auto graphs = std::make_unique<Graphs>();
  graphs->forward = CaptureOf(gpu_.get(), [&] { passes_->EnqueueForward(batch, training); });
  return graphs;
}

CudaReplica::Graphs& CudaReplica::Captured(size_t batch, bool training) {
  return GraphsOf(training).Get(batch, [&] { return CaptureForward(batch, training); });
}

const cuda::Graph& CudaReplica::CapturedBackward(size_t batch, const GradientPlaces& to) {
  std::vector<BackwardGraph>& graphs = Captured(batch, /*training=*/true).backward;
  const auto found = std::find_if(graphs.begin(), graphs.end(),
                                  [&](const BackwardGraph& each) { return each.to == to; });
  if (found != graphs.end()) {
    std::rotate(found, found + 1, graphs.end());
  } else {
    if (graphs.size() == kMostBackwardGraphs) graphs.erase(graphs.begin());
    graphs.push_back({to, CaptureOf(gpu_.get(), [&] { passes_->EnqueueBackward(batch, to); })});
  }
  return *graphs.back().graph;
}

void CudaReplica::Prepare(size_t batch, bool training, const GradientPlaces& to) {
  Captured(batch, training);
  if (training) CapturedBackward(batch, to);
}

void CudaReplica::LaunchForward(size_t batch, bool training) {
  if (training) layout_.gradients.BeginStep();
  gpu_->Launch(*Captured(batch, training).forward);
  gpu_->Record(Stream::kCompute, forward_done_.get());
  gpu_->WaitFor(Stream::kCopyIn, *forward_done_);
}

void CudaReplica::LaunchBackward(size_t batch, const GradientPlaces& to) {
  gpu_->Launch(CapturedBackward(batch, to));
  gpu_->Record(Stream::kCompute, backward_done_.get());
  gpu_->WaitFor(Stream::kCopyIn, *backward_done_);
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
  static_cast<void>(ids_.release());
  static_cast<void>(memory_.release());
  static_cast<void>(gpu_.release());
}

}  // namespace millrace::worker
