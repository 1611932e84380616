#include "worker/device/cuda/cuda_gradients.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "glog/logging.h"
#include "worker/model/host_memory.h"
#include "worker/model/penalty.h"

namespace millrace::worker {

namespace {

using Clock = std::chrono::steady_clock;

// As for events (kernels/gpu.cu): looks again at once for so long, then sleeps in between.
constexpr std::chrono::microseconds kEager(200);
constexpr std::chrono::microseconds kSleep(20);

// Of a group's mark, beside twice the number of the step.
constexpr uint64_t kNotFinite = 1;  // As cuda::Gpu::MarkNotFinite sets it.
constexpr uint64_t kStep = 2;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

using cuda::Stream;

void HandOverFrom(absl::Span<const float> from, size_t variable, bool is_finite,
                  GradientSink* sink) {
  const absl::Span<float> buffer = sink->Buffer(variable);
  CHECK_LE(buffer.size(), from.size());
  if (buffer.data() != from.data()) std::copy_n(from.data(), buffer.size(), buffer.data());
  if (is_finite) {
    sink->FinishedFinite(variable);
  } else {
    sink->Finished(variable);
  }
}

CudaGradients::CudaGradients(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places,
                             bool alone, MemoryLayout* layout)
    : variables_(plan.variables.size()), alone_(alone), bytes_(places.gradients_bytes) {
  for (size_t i = 0; i < variables_.size(); ++i) {
    Variable& variable = variables_[i];
    variable.elements = places.elements[i];
    variable.value = places.values[i];
    variable.gradient = places.gradients[i];
    variable.uses = walk.variable_uses[i];
    variable.is_statistic = plan.variables[i].update().has_moving_average();
    variable.regularizer = plan.regularizers[i];
  }
  // All but the last one have kGroupBytes.
  const size_t most_groups = std::min(places.order.size(), bytes_ / kGroupBytes + 1);
  arrivals_.resize(alone_ ? most_groups : 0);
  for (Arrival& arrival : arrivals_) arrival.mark = layout->Add(sizeof(uint64_t));
  marks_ = layout->Add(MarksBytes());
}

void CudaGradients::AddRest(MemoryLayout* layout) {
  all_ = layout->Add(bytes_);
  for (Variable& variable : variables_) {
    if (variable.uses > 1) variable.part = layout->Add(variable.bytes());
  }
}

void CudaGradients::Bind(cuda::Gpu* gpu, const MirroredMemory* memory, const float* values) {
  gpu_ = gpu;
  memory_ = memory;
  values_ = values;
  final_on_device_ = gpu->MakeOrderEvent();
  looked_at_ = gpu->MakeOrderEvent();
  all_copied_ = gpu->MakeOrderEvent();
  for (Arrival& arrival : arrivals_) arrival.copied = gpu->MakeEvent();
}

void CudaGradients::BeginStep() {
  std::fill_n(memory_->Host<uint64_t>(marks_), arrivals_.size(), kStep * ++step_);
  memory_->CopyIn(marks_, MarksBytes());
}

void CudaGradients::Begin(const BatchPart& part, const GradientPlaces& to) {
  first_ = part.first == 0;
  share_ = static_cast<double>(part.size) / static_cast<double>(part.whole());
  to_ = to;
  enqueued_.clear();
  regularized_.clear();
  open_ = false;
  for (Variable& variable : variables_) variable.finished = 0;
}

void CudaGradients::End() {
  if (open_) CopyOutLast();
  if (!enqueued_.empty()) {
    gpu_->Record(Stream::kCopyOut, all_copied_.get());
    gpu_->WaitFor(Stream::kCompute, *all_copied_);
  }
  groups_ = enqueued_;
}

float* CudaGradients::Buffer(int variable) {
  const Variable& of = variables_[static_cast<size_t>(variable)];
  return of.finished == 0 ? OnDevice(of) : memory_->Device<float>(of.part);
}

void CudaGradients::Finished(int variable) {
  Variable& of = variables_[static_cast<size_t>(variable)];
  if (of.finished > 0) {
    gpu_->Add(memory_->Device<float>(of.part), of.elements, OnDevice(of));
  }
  if (++of.finished == of.uses) Complete(static_cast<size_t>(variable));
}

void CudaGradients::Complete(size_t index) {
  const Variable& of = variables_[index];
  float* const gradient = OnDevice(of);
  const auto divisor = static_cast<float>(static_cast<double>(of.uses) / share_);
  if (of.is_statistic && divisor != 1) gpu_->Divide(divisor, of.elements, gradient);
  if (first_ && IsRegularized(of.regularizer)) {
    regularized_.push_back({values_ + of.value / sizeof(float), gradient, of.elements,
                            static_cast<float>(of.regularizer.l1()),
                            static_cast<float>(2 * of.regularizer.l2())});
  }
  if (!alone_) return;
  if (!std::exchange(open_, true)) {
    enqueued_.emplace_back();
    open_bytes_ = 0;
  }
  enqueued_.back().push_back(index);
  open_bytes_ += of.bytes();
  if (open_bytes_ >= kGroupBytes) CopyOutLast();
}

void CudaGradients::MakeFinal() {
  gpu_->AddRegularizers(regularized_);
  regularized_.clear();
}

// The group is looked at while it is copied, on another stream; its mark waits for both.
void CudaGradients::CopyOutLast() {
  MakeFinal();
  const size_t index = enqueued_.size() - 1;
  const Arrival& arrival = arrivals_[index];
  uint64_t* const mark = memory_->Device<uint64_t>(marks_) + index;
  gpu_->Record(Stream::kCompute, final_on_device_.get());
  gpu_->WaitFor(Stream::kExchange, *final_on_device_);
  gpu_->WaitFor(Stream::kCopyOut, *final_on_device_);
  CopyOut(enqueued_.back(), mark);
  gpu_->Record(Stream::kExchange, looked_at_.get());
  gpu_->WaitFor(Stream::kCopyOut, *looked_at_);
  memory_->CopyOut(Stream::kCopyOut, mark, arrival.mark, sizeof(uint64_t));
  gpu_->Record(Stream::kCopyOut, arrival.copied.get());
  open_ = false;
}

// Variables stand in the order of their numbers, on the device and in general where they go. What
// is between them on the device is 0.
void CudaGradients::CopyOut(Group group, uint64_t* mark) {
  std::sort(group.begin(), group.end());
  for (size_t begin = 0, end = 1; begin < group.size(); begin = end++) {
    while (end < group.size() && Follows(group[end], group[end - 1])) ++end;
    const Variable& first = variables_[group[begin]];
    const Variable& last = variables_[group[end - 1]];
    const size_t bytes = last.gradient + last.bytes() - first.gradient;
    gpu_->MarkNotFinite(Stream::kExchange, OnDevice(first), bytes / sizeof(float), mark);
    gpu_->CopyOut(Stream::kCopyOut, to_[group[begin]], OnDevice(first), bytes);
  }
}

bool CudaGradients::Follows(size_t next, size_t before) const {
  const Variable& of = variables_[before];
  const size_t distance = variables_[next].gradient - of.gradient;
  return distance < of.bytes() + HostMemory::kAlignment &&
         to_[next] == to_[before] + distance / sizeof(float);
}

// The event may speak of the step before, and of a device that has failed the number of the step
// says nothing: so the event is asked again and again. Once the number has come it is asked a last
// time: what a copy wrote is promised to those who have seen the event behind it. Should the event
// still speak of the step before, it is the order of copies on one stream that is relied on.
bool CudaGradients::Await(const Arrival& arrival, double seconds) const {
  const Clock::time_point begin = Clock::now();
  const auto left = [&] { return std::max(0.0, seconds - SecondsSince(begin)); };
  while (!gpu_->HostWaitFor(*arrival.copied, /*seconds=*/0) ||
         MarkAt(arrival.mark) / kStep != step_) {
    if (left() == 0) return false;
    if (Clock::now() - begin < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
  return gpu_->HostWaitFor(*arrival.copied, left());
}

uint64_t CudaGradients::MarkAt(size_t place) const {
  const std::atomic_ref<uint64_t> mark(*memory_->Host<uint64_t>(place));
  return mark.load(std::memory_order_acquire);
}

bool CudaGradients::Wait(double seconds) const {
  return groups_.empty() || Await(arrivals_[groups_.size() - 1], seconds);
}

bool CudaGradients::HandOver(double seconds, const GradientPlaces& to, GradientSink* sink) const {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const Arrival& arrival = arrivals_[group];
    if (!Await(arrival, seconds)) return false;
    const bool is_finite = (MarkAt(arrival.mark) & kNotFinite) == 0;
    for (const size_t index : groups_[group]) {
      HandOverFrom({to[index], variables_[index].elements}, index, is_finite, sink);
    }
  }
  return true;
}

}  // namespace millrace::worker
