#include "worker/device_loss.h"

namespace millrace::worker {

void DeviceLoss::Tell(const absl::Status& why) {
  MutexLock lock(&mutex_);
  why_.Update(why);
  changed_.SignalAll();
}

void DeviceLoss::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.SignalAll();
}

bool DeviceLoss::Wait() {
  MutexLock lock(&mutex_);
  while (why_.ok() && !closed_) changed_.Wait(&mutex_);
  return !why_.ok();
}

absl::Status DeviceLoss::why() const {
  MutexLock lock(&mutex_);
  return why_;
}

}  // namespace millrace::worker
