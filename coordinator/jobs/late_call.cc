#include "coordinator/jobs/late_call.h"

#include <algorithm>
#include <utility>

namespace millrace::coordinator {

LateCall::LateCall(Clock* clock, absl::Duration pause, std::function<void()> call)
    : clock_(clock), pause_(pause), call_(std::move(call)), thread_([this] { CallInLoop(); }) {}

LateCall::~LateCall() { Stop(); }

void LateCall::Ask() {
  MutexLock lock(&mutex_);
  at_ = std::min(at_, clock_->Now() + pause_);
  changed_.SignalAll();
}

void LateCall::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void LateCall::CallInLoop() {
  while (AwaitTime()) call_();
}

// Returns false when nothing is to be called any more.
bool LateCall::AwaitTime() {
  MutexLock lock(&mutex_);
  while (!stopping_ && clock_->Now() < at_) clock_->WaitUntil(&changed_, &mutex_, at_);
  at_ = absl::InfiniteFuture();
  return !stopping_;
}

}  // namespace millrace::coordinator
