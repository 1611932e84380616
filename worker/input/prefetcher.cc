#include "worker/input/prefetcher.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/catch_bad_alloc.h"
#include "worker/start_job_thread.h"

namespace millrace::worker {

absl::StatusOr<std::unique_ptr<Prefetcher>> Prefetcher::Start(const Dataset* dataset,
                                                              const StepOrder& order,
                                                              size_t capacity, Change change,
                                                              const ThreadStarter& start_thread) {
  auto prefetcher = absl::WrapUnique(new Prefetcher(dataset, order, capacity, std::move(change)));
  MILLRACE_ASSIGN_OR_RETURN(prefetcher->thread_,
                            StartJobThread("the job's batches", start_thread,
                                           [prefetcher = prefetcher.get()] { prefetcher->Run(); }));
  return prefetcher;
}

Prefetcher::Prefetcher(const Dataset* dataset, const StepOrder& order, size_t capacity,
                       Change change)
    : dataset_(dataset), order_(order), capacity_(capacity), change_(std::move(change)) {
  CHECK_GE(capacity, 1u);
}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  work_.Signal();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::Expect(uint64_t step) {
  {
    MutexLock lock(&mutex_);
    if (under_way_ == step) under_way_forgotten_ = false;
    if (IsKnown(step) || KnownSteps() >= capacity_) return;
    expected_.push_back(step);
  }
  work_.Signal();
}

absl::StatusOr<std::unique_ptr<Batch>> Prefetcher::Take(uint64_t step) {
  std::unique_ptr<Batch> batch;
  {
    MutexLock lock(&mutex_);
    // The thread may finish this step, be told to expect it again and take it up once more before
    // we wake: hence the loop.
    while (under_way_ == step) {
      under_way_forgotten_ = false;
      assembled_.Wait(&mutex_);
    }
    if (const auto found = ready_.find(step); found != ready_.end()) {
      batch = std::move(found->second);
      ready_.erase(found);
      return batch;
    }
    expected_.erase(std::remove(expected_.begin(), expected_.end(), step), expected_.end());
    batch = TakeSpare();
  }
  MILLRACE_RETURN_IF_ERROR(Assemble(step, batch.get()));
  return batch;
}

const Batch* Prefetcher::Ready(uint64_t step) const {
  MutexLock lock(&mutex_);
  const auto found = ready_.find(step);
  return found == ready_.end() ? nullptr : found->second.get();
}

void Prefetcher::Forget(uint64_t begin, uint64_t end) {
  const auto forgotten = [&](uint64_t step) { return begin <= step && step < end; };
  MutexLock lock(&mutex_);
  expected_.erase(std::remove_if(expected_.begin(), expected_.end(), forgotten), expected_.end());
  absl::erase_if(ready_, [&](const auto& entry) { return forgotten(entry.first); });
  if (under_way_.has_value() && forgotten(*under_way_)) under_way_forgotten_ = true;
}

void Prefetcher::Recycle(std::unique_ptr<Batch> batch) {
  MutexLock lock(&mutex_);
  if (batch != nullptr && spares_.size() < capacity_) spares_.push_back(std::move(batch));
}

void Prefetcher::Run() {
  while (true) {
    uint64_t step;
    std::unique_ptr<Batch> batch;
    {
      MutexLock lock(&mutex_);
      while (expected_.empty() && !stopping_) work_.Wait(&mutex_);
      if (stopping_) return;
      step = expected_.front();
      expected_.pop_front();
      under_way_ = step;
      under_way_forgotten_ = false;
      batch = TakeSpare();
    }
    // Where it could not be: whoever takes the step tries again, and is told.
    const bool assembled = Assemble(step, batch.get()).ok();
    {
      MutexLock lock(&mutex_);
      if (assembled && !under_way_forgotten_) ready_[step] = std::move(batch);
      under_way_.reset();
    }
    assembled_.SignalAll();
  }
}

absl::Status Prefetcher::Assemble(uint64_t step, Batch* batch) const {
  return CatchBadAlloc("a batch; use a smaller batch_size", [&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(dataset_->Read(order_.Examples(step), batch));
    if (change_) change_(step, batch);
    return absl::OkStatus();
  });
}

std::unique_ptr<Batch> Prefetcher::TakeSpare() {
  if (spares_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

bool Prefetcher::IsKnown(uint64_t step) const {
  return under_way_ == step || ready_.contains(step) ||
         std::find(expected_.begin(), expected_.end(), step) != expected_.end();
}

size_t Prefetcher::KnownSteps() const {
  return expected_.size() + ready_.size() + (under_way_.has_value() ? 1 : 0);
}

}  // namespace millrace::worker
