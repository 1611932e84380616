#include "worker/device/cuda/cuda_replica.h"

#include <algorithm>
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
      layout_(plan_, walk_, layers_, places_, sizes_, buckets_, replicas_),
      done_(gpu_->MakeEvent()) {}

GradientExchange::Member CudaReplica::member() const {
  return {
      .gpu = gpu_.get(),
      .gradients = layout_.gradients.on_device(),
      .received = memory_->Device<char>(layout_.received),
      .marks = memory_->Device<uint64_t>(layout_.marks),
      .unmarked = memory_->Host<uint64_t>(layout_.marks),
      .marks_copied = memory_->Host<uint64_t>(layout_.marks_copied),
  };
}

void CudaReplica::TakeMemory(const HostVariables* host) {
  host_ = host;
  memory_ =
      std::make_unique<MirroredMemory>(gpu_.get(), layout_.mirrored_bytes, layout_.memory.bytes());
  std::memset(memory_->Host<char>(0), 0, layout_.mirrored_bytes);
  ids_ = std::make_unique<CudaIds>(plan_, sizes_.largest(), gpu_.get());
  passes_ = std::make_unique<CudaPasses>(plan_, walk_, places_, layers_, &layout_, *memory_, *ids_,
                                         gpu_.get());
  // What is between gradients is copied along with them, and nobody writes it.
  gpu_->CopyIn(Stream::kCopyIn, layout_.gradients.on_device(), host->gradients(),
               places_.gradients_bytes);
  copied_in_ = gpu_->MakeEvent();
  forward_done_ = gpu_->MakeEvent();
  backward_done_ = gpu_->MakeEvent();
  copies_in_ = std::make_unique<CopiesIn>(
      [this](void* device, const void* from, size_t bytes) {
        gpu_->CopyIn(Stream::kCopyIn, device, from, bytes);
      },
      [this](void* to, const void* from, size_t bytes) {
        gpu_->CopyWithin(Stream::kCopyIn, to, from, bytes);
      });
  if (plan_.pulls_ahead) AddPlacesAhead();
}

// What is there at first is 0.
void CudaReplica::AddPlacesAhead() {
  const auto add = [&](size_t place, const void* zeros, size_t bytes, size_t ahead, bool at_once) {
    char* const on_device = memory_->Device<char>(ahead);
    gpu_->CopyIn(Stream::kCopyIn, on_device, zeros, bytes);
    copies_in_->AddPlace(memory_->Device<char>(place), bytes, on_device, at_once);
  };
  const CudaInputs& inputs = layout_.inputs;
  add(inputs.begin(), memory_->Host<char>(inputs.begin()), inputs.bytes(), layout_.inputs_ahead,
      /*at_once=*/true);
  add(layout_.values, host_->values(), places_.values_bytes, layout_.values_ahead,
      /*at_once=*/false);
  ids_->AddPlacesAhead(copies_in_.get());
}

void CudaReplica::CopyInValues(size_t begin, size_t bytes) {
  copies_in_->Add(memory_->Device<char>(layout_.values + begin),
                  static_cast<const char*>(host_->values()) + begin, bytes);
}

void CudaReplica::CopyBatch(const BatchPart& part, bool training) {
  if (ids_->may_move()) MoveIn();  // They have no place to go ahead to.
  layout_.inputs.CopyBatch(part, /*classes=*/training, *memory_, copies_in_.get());
  if (!ids_->Take(part, copies_in_.get())) return;
  training_graphs_.Clear();
  evaluation_graphs_.Clear();
}

void CudaReplica::MoveIn() {
  gpu_->WaitFor(Stream::kCopyIn, *backward_done_);
  copies_in_->MoveIn();
}

void CudaReplica::BeginPass(uint64_t seed) {
  layout_.inputs.EnqueueSeed(seed, *memory_);
  MoveIn();
  gpu_->Record(Stream::kCopyIn, copied_in_.get());
  gpu_->WaitFor(Stream::kCompute, *copied_in_);
}

std::unique_ptr<CudaReplica::Graphs> CudaReplica::CaptureForward(const BatchPart& part,
                                                                 bool training) {
  auto graphs = std::make_unique<Graphs>();
  graphs->forward = CaptureOf(gpu_.get(), [&] { passes_->EnqueueForward(part, training); });
  return graphs;
}

CudaReplica::BackwardGraphs CudaReplica::CaptureBackward(const BatchPart& part,
                                                         const GradientPlaces& to) {
  BackwardGraphs graphs;
  graphs.to = to;
  size_t begin = 0;
  const auto capture_to = [&](size_t end) {
    graphs.by_bucket.push_back(
        CaptureOf(gpu_.get(), [&] { passes_->EnqueueBackward(part, to, begin, end); }));
    begin = end;
  };
  if (replicas_ == 1) {
    capture_to(walk_.backward.size());
  } else {
    for (const GradientBucket& bucket : buckets_) capture_to(bucket.steps);
  }
  return graphs;
}

CudaReplica::Graphs& CudaReplica::Captured(const BatchPart& part, bool training) {
  return GraphsOf(training).Get(part.whole(), [&] { return CaptureForward(part, training); });
}

const CudaReplica::BackwardGraphs& CudaReplica::CapturedBackward(const BatchPart& part,
                                                                 const GradientPlaces& to) {
  std::vector<BackwardGraphs>& graphs = Captured(part, /*training=*/true).backward;
  const auto found = std::find_if(graphs.begin(), graphs.end(),
                                  [&](const BackwardGraphs& each) { return each.to == to; });
  if (found != graphs.end()) {
    std::rotate(found, found + 1, graphs.end());
  } else {
    if (graphs.size() == kMostBackwardGraphs) graphs.erase(graphs.begin());
    graphs.push_back(CaptureBackward(part, to));
  }
  return graphs.back();
}

void CudaReplica::Prepare(const BatchPart& part, bool training, const GradientPlaces& to) {
  Captured(part, training);
  if (training) CapturedBackward(part, to);
}

void CudaReplica::LaunchForward(const BatchPart& part, bool training) {
  if (training && replicas_ == 1) layout_.gradients.BeginStep();
  gpu_->Launch(*Captured(part, training).forward);
  gpu_->Record(Stream::kCompute, forward_done_.get());
  gpu_->WaitFor(Stream::kCopyIn, *forward_done_);
}

void CudaReplica::LaunchBackward(const BatchPart& part, const GradientPlaces& to, size_t bucket) {
  gpu_->Launch(*CapturedBackward(part, to).by_bucket[bucket]);
  gpu_->Record(Stream::kCompute, backward_done_.get());
  if (plan_.pulls_ahead) {
    copies_in_->GoAhead();
  } else {
    gpu_->WaitFor(Stream::kCopyIn, *backward_done_);
  }
}

bool CudaReplica::AwaitForward(double seconds) const {
  return gpu_->HostWaitFor(*forward_done_, seconds);
}

bool CudaReplica::Await(std::initializer_list<Stream> streams, double seconds) const {
  for (const Stream stream : streams) {
    gpu_->Record(stream, done_.get());
    if (!gpu_->HostWaitFor(*done_, seconds)) return false;
  }
  return true;
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
