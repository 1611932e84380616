#include "worker/training/background.h"

#include <algorithm>
#include <utility>

namespace millrace::worker {

Background::Background(Clock* clock) : clock_(clock) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

Background::~Background() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Background::Add(Task task) { AddAt(absl::InfinitePast(), std::move(task)); }

void Background::AddAt(absl::Time due, Task task) {
  MutexLock lock(&mutex_);
  tasks_.emplace(due, std::move(task));
  changed_.SignalAll();
}

absl::Time Background::NextAt() const {
  if (tasks_.empty()) return absl::InfiniteFuture();
  const absl::Time due = tasks_.begin()->first;
  return begun_.empty() ? due : std::max(due, *begun_.rbegin() + kPatience);
}

absl::optional<Background::Begun> Background::Next() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const absl::Time now = clock_->Now();
    const absl::Time at = NextAt();
    if (at <= now) {
      Task task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
      begun_.insert(now);
      return Begun{std::move(task), now};
    }
    clock_->WaitUntil(&changed_, &mutex_, at);
  }
  return absl::nullopt;
}

void Background::Run() {
  while (absl::optional<Begun> next = Next()) {
    const absl::Time at = next->at;
    std::move(next->task)();
    next.reset();  // What it holds goes before the next one begins.
    MutexLock lock(&mutex_);
    begun_.erase(begun_.find(at));
    changed_.SignalAll();
  }
}

}  // namespace millrace::worker
