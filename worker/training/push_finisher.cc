#include "worker/training/push_finisher.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/start_job_thread.h"

namespace millrace::worker {

absl::StatusOr<std::unique_ptr<PushFinisher>> PushFinisher::Start(
    size_t capacity, const ThreadStarter& start_thread) {
  auto finisher = absl::WrapUnique(new PushFinisher(capacity));
  MILLRACE_ASSIGN_OR_RETURN(finisher->thread_,
                            StartJobThread("the job's pushes", start_thread,
                                           [finisher = finisher.get()] { finisher->Run(); }));
  return finisher;
}

PushFinisher::PushFinisher(size_t capacity) : capacity_(capacity) { CHECK_GE(capacity, 1u); }

PushFinisher::~PushFinisher() {
  Drain();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void PushFinisher::Add(Finish finish) {
  MutexLock lock(&mutex_);
  while (steps_.size() >= capacity_) changed_.Wait(&mutex_);
  steps_.push_back(std::move(finish));
  changed_.SignalAll();
}

void PushFinisher::Drain() {
  MutexLock lock(&mutex_);
  while (!steps_.empty()) changed_.Wait(&mutex_);
}

void PushFinisher::Run() {
  while (true) {
    Finish finish;
    {
      MutexLock lock(&mutex_);
      while (steps_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (steps_.empty()) return;
      finish = std::move(steps_.front());
    }
    std::move(finish)();
    finish = nullptr;  // Lets go of the gradients before the next step takes its own.
    MutexLock lock(&mutex_);
    steps_.pop_front();
    changed_.SignalAll();
  }
}

}  // namespace millrace::worker
