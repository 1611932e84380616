#include "worker/training/background.h"

#include <utility>

namespace millrace::worker {

Background::Background(Clock* clock) : clock_(clock), thread_([this] { Run(); }) {}

Background::~Background() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Background::Add(Task task) { AddAt(absl::InfinitePast(), std::move(task)); }

void Background::AddAt(absl::Time due, Task task) {
  MutexLock lock(&mutex_);
  tasks_.emplace(due, std::move(task));
  changed_.Signal();
}

absl::optional<Background::Task> Background::Next() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const auto first = tasks_.begin();
    if (first != tasks_.end() && first->first <= clock_->Now()) {
      Task task = std::move(first->second);
      tasks_.erase(first);
      return task;
    }
    clock_->WaitUntil(&changed_, &mutex_,
                      first == tasks_.end() ? absl::InfiniteFuture() : first->first);
  }
  return absl::nullopt;
}

void Background::Run() {
  while (absl::optional<Task> task = Next()) (*std::move(task))();
}

}  // namespace millrace::worker
