#include "worker/training/push_finisher.h"

#include <utility>

#include "glog/logging.h"

namespace millrace::worker {

PushFinisher::PushFinisher(size_t capacity) : capacity_(capacity), thread_([this] { Run(); }) {
  CHECK_GE(capacity, 1u);
}

PushFinisher::~PushFinisher() {
  Drain();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
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
