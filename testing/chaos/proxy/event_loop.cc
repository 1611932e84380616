#include "testing/chaos/proxy/event_loop.h"

#include <utility>

namespace millrace::chaos {

EventLoop::EventLoop() : thread_([this] { Run(); }) {}

EventLoop::~EventLoop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void EventLoop::PostAt(absl::Time when, std::function<void()> thing) {
  MutexLock lock(&mutex_);
  things_.emplace(when, std::move(thing));
  changed_.Signal();
}

void EventLoop::Run() {
  while (true) {
    std::function<void()> thing;
    {
      MutexLock lock(&mutex_);
      while (things_.empty() || things_.begin()->first > clock_->Now()) {
        if (stopping_) return;
        const absl::Time next = things_.empty() ? absl::InfiniteFuture() : things_.begin()->first;
        clock_->WaitUntil(&changed_, &mutex_, next);
      }
      thing = std::move(things_.begin()->second);
      things_.erase(things_.begin());
    }
    thing();
  }
}

}  // namespace millrace::chaos
