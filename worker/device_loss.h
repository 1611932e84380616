// Brings the news that a worker's device is lost from the thread that finds it to the one that ends
// the worker.
#ifndef MILLRACE_WORKER_DEVICE_LOSS_H_
#define MILLRACE_WORKER_DEVICE_LOSS_H_

#include "absl/status/status.h"
#include "common/mutex.h"

namespace millrace::worker {

// Thread-safe.
class DeviceLoss {
 public:
  // The device is of no use any more; the first one to say why is heard.
  void Tell(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing will be told any more.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until one of the two was called. Whether the device is lost.
  bool Wait() ABSL_LOCKS_EXCLUDED(mutex_);

  // Why it is lost; OK: it is not.
  absl::Status why() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_LOSS_H_
