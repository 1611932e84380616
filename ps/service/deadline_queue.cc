#include "ps/service/deadline_queue.h"

namespace millrace::ps {

DeadlineQueue::DeadlineQueue(Clock* clock) : clock_(clock), thread_([this] { Loop(); }) {}

DeadlineQueue::~DeadlineQueue() { Stop(); }

void DeadlineQueue::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

DeadlineQueue::Key DeadlineQueue::Add(absl::Time when, std::function<void()> call) {
  Key key;
  bool first;
  {
    MutexLock lock(&mutex_);
    key = {when, ++last_};
    calls_.emplace(key, std::move(call));
    first = calls_.begin()->first == key;
  }
  if (first) changed_.SignalAll();
  return key;
}

void DeadlineQueue::Cancel(const Key& key) {
  std::function<void()> call;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  auto it = calls_.find(key);
  if (it == calls_.end()) return;
  call = std::move(it->second);
  calls_.erase(it);
}

void DeadlineQueue::Loop() {
  while (true) {
    std::function<void()> call;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      const absl::Time next = calls_.empty() ? absl::InfiniteFuture() : calls_.begin()->first.first;
      if (next > clock_->Now()) {
        clock_->WaitUntil(&changed_, &mutex_, next);
        continue;
      }
      call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
    }
    call();
  }
}

}  // namespace millrace::ps
