#include "worker/device/cuda/cuda_gradients.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "worker/model/penalty.h"

namespace millrace::worker {

namespace {

using Clock = std::chrono::steady_clock;

// As for events (kernels/gpu.cu): looks again at once for so long, then sleeps in between.
constexpr std::chrono::microseconds kEager(200);
constexpr std::chrono::microseconds kSleep(20);

}  // namespace

using cuda::Stream;

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
    if (variable.uses > 0) variable.step = layout->Add(sizeof(uint64_t));
  }
  step_place_ = layout->Add(sizeof(uint64_t));
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
  all_copied_ = gpu->MakeEvent();
  for (Variable& variable : variables_) {
    if (variable.uses == 0) continue;
    variable.final_on_device = gpu->MakeEvent();
    variable.copied = gpu->MakeEvent();
  }
}

void CudaGradients::BeginStep() {
  *memory_->Host<uint64_t>(step_place_) = ++step_;
  memory_->CopyIn(step_place_, sizeof(uint64_t));
}

void CudaGradients::Begin(const BatchPart& part, const GradientPlaces& to) {
  first_ = part.first == 0;
  share_ = static_cast<double>(part.size) / static_cast<double>(part.whole());
  to_ = to;
  enqueued_.clear();
  for (Variable& variable : variables_) variable.finished = 0;
}

void CudaGradients::End() {
  if (alone_ && !enqueued_.empty()) {
    gpu_->Record(Stream::kCopyOut, all_copied_.get());
    gpu_->WaitFor(Stream::kCompute, *all_copied_);
  }
  order_ = enqueued_;
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
    gpu_->AddRegularizer(values_ + of.value / sizeof(float),
                         static_cast<float>(of.regularizer.l1()),
                         static_cast<float>(2 * of.regularizer.l2()), of.elements, gradient);
  }
  if (!alone_) return;
  gpu_->Record(Stream::kCompute, of.final_on_device.get());
  gpu_->WaitFor(Stream::kCopyOut, *of.final_on_device);
  gpu_->CopyOut(Stream::kCopyOut, to_[index], gradient, of.bytes());
  memory_->CopyOut(Stream::kCopyOut, memory_->Device<uint64_t>(step_place_), of.step,
                   sizeof(uint64_t));
  gpu_->Record(Stream::kCopyOut, of.copied.get());
  enqueued_.push_back(index);
}

bool CudaGradients::Await(const Variable& variable, double seconds) const {
  if (!gpu_->HostWaitFor(*variable.copied, seconds)) return false;
  const std::atomic_ref<uint64_t> step(*memory_->Host<uint64_t>(variable.step));
  const Clock::time_point begin = Clock::now();
  while (step.load(std::memory_order_acquire) != step_) {
    const Clock::duration waited = Clock::now() - begin;
    if (waited >= std::chrono::duration<double>(seconds)) return false;
    if (waited < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
  return true;
}

bool CudaGradients::Wait(double seconds) const {
  return order_.empty() || Await(variables_[order_.back()], seconds);
}

bool CudaGradients::HandOver(double seconds, const GradientPlaces& to, GradientSink* sink) const {
  for (const size_t index : order_) {
    const Variable& of = variables_[index];
    if (!Await(of, seconds)) return false;
    float* const buffer = sink->Buffer(index).data();
    if (buffer != to[index]) std::copy_n(to[index], of.elements, buffer);
    sink->Finished(index);
  }
  return true;
}

}  // namespace millrace::worker
