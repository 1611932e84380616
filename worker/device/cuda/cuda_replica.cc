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
                         const std::vector<GradientBucket>& buckets, size_t replicas,
                         const BatchSizes& sizes, std::unique_ptr<cuda::Gpu> gpu, std::string name)
    : plan_(plan),
      walk_(walk),
      places_(places),
      buckets_(buckets),
      replicas_(replicas),
      sizes_(sizes),
      name_(std::move(name)),
      gpu_(std::move(gpu)),
      layers_(plan_, walk_, gpu_.get()),
      layout_(plan_, walk_, layers_, places_, sizes_, buckets_, replicas_) {}

GradientExchange::Member CudaReplica::member() const {
  return {gpu_.get(), layout_.gradients.on_device(), memory_->Device<char>(layout_.received)};
}

void CudaReplica::TakeMemory(const HostVariables* host) {
  host_ = host;
  memory_ =
      std::make_unique<MirroredMemory>(gpu_.get(), layout_.mirrored_bytes, layout_.memory.bytes());
  std::memset(memory_->Host<char>(0), 0, layout_.mirrored_bytes);
  ids_ = std::make_unique<CudaIds>(plan_, sizes_.largest(), gpu_.get());
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

void CudaReplica::EnqueueInputs(const BatchPart& part, uint64_t seed, bool training) {
  gpu_->Record(Stream::kCopyIn, values_there_.get());
  gpu_->WaitFor(Stream::kCompute, *values_there_);
  layout_.inputs.Enqueue(part, seed, /*classes=*/training, *memory_);
  if (!ids_->Take(part)) return;
  training_graphs_.Clear();
  evaluation_graphs_.Clear();
}

std::unique_ptr<CudaReplica::Graphs> CudaReplica::Capture(const BatchPart& part, bool training) {
  auto graphs = std::make_unique<Graphs>();
  graphs->forward = CaptureOf(gpu_.get(), [&] { passes_->EnqueueForward(part, training); });
  if (training && replicas_ > 1) CaptureBuckets(part, graphs.get());
  return graphs;
}

void CudaReplica::CaptureBuckets(const BatchPart& part, Graphs* graphs) {
  size_t begin = 0;
  for (const GradientBucket& bucket : buckets_) {
    const size_t end = bucket.steps;
    graphs->backward.push_back(
        {{}, CaptureOf(gpu_.get(), [&] { passes_->EnqueueBackward(part, begin, end, {}); })});
    begin = end;
  }
}

CudaReplica::Graphs& CudaReplica::Captured(const BatchPart& part, bool training) {
  return GraphsOf(training).Get(part.whole(), [&] { return Capture(part, training); });
}

void CudaReplica::PrepareBackward(const BatchPart& part, const GradientPlaces& to) {
  std::vector<BackwardGraph>& graphs = Captured(part, /*training=*/true).backward;
  const auto found = std::find_if(graphs.begin(), graphs.end(),
                                  [&](const BackwardGraph& each) { return each.to == to; });
  if (found != graphs.end()) {
    std::rotate(found, found + 1, graphs.end());
    return;
  }
  if (graphs.size() == kMostBackwardGraphs) graphs.erase(graphs.begin());
  const size_t all = walk_.backward.size();
  graphs.push_back(
      {to, CaptureOf(gpu_.get(), [&] { passes_->EnqueueBackward(part, 0, all, to); })});
}

void CudaReplica::Prepare(const BatchPart& part, bool training, const GradientPlaces& to) {
  Captured(part, training);
  if (training && replicas_ == 1) PrepareBackward(part, to);
}

void CudaReplica::LaunchForward(const BatchPart& part, bool training) {
  if (training && replicas_ == 1) layout_.gradients.BeginStep();
  gpu_->Launch(*Captured(part, training).forward);
  gpu_->Record(Stream::kCompute, forward_done_.get());
  gpu_->WaitFor(Stream::kCopyIn, *forward_done_);
}

void CudaReplica::LaunchBackward(const BatchPart& part, size_t bucket) {
  const std::vector<BackwardGraph>& graphs = Captured(part, /*training=*/true).backward;
  gpu_->Launch(*(replicas_ == 1 ? graphs.back() : graphs[bucket]).graph);
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
