#include "worker/training/background.h"

#include <utility>

namespace millrace::worker {

Background::Background() : thread_([this] { Run(); }) {}

Background::~Background() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Background::Add(Task task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.Signal();
}

void Background::Run() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && tasks_.empty()) changed_.Wait(&mutex_);
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace millrace::worker
