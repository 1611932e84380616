#include "client/interrupt.h"

#include <utility>

namespace millrace::client {

Interrupt::Action::Action(Interrupt* interrupt, std::function<void()> action)
    : interrupt_(interrupt) {
  bool call_now = false;
  {
    MutexLock lock(&interrupt_->mutex_);
    call_now = interrupt_->triggered_;
    if (!call_now) interrupt_->action_ = std::move(action);
  }
  if (call_now) action();
}

Interrupt::Action::~Action() {
  MutexLock lock(&interrupt_->mutex_);
  while (interrupt_->running_) interrupt_->action_ended_.Wait(&interrupt_->mutex_);
  interrupt_->action_ = nullptr;
}

void Interrupt::Trigger() {
  std::function<void()> action;
  {
    MutexLock lock(&mutex_);
    if (triggered_) return;
    triggered_ = true;
    action = action_;
    running_ = true;
  }
  if (action) action();
  MutexLock lock(&mutex_);
  running_ = false;
  action_ended_.SignalAll();
}

bool Interrupt::triggered() const {
  MutexLock lock(&mutex_);
  return triggered_;
}

}  // namespace millrace::client
