#ifndef MILLRACE_WORKER_DEVICE_CUDA_DEVICE_STATE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_DEVICE_STATE_H_

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "worker/device/cuda/device_lost.h"

namespace millrace::worker {

// What all models of a device know of it. Thread-safe.
class DeviceState {
 public:
  explicit DeviceState(DeviceLost lost) : lost_(std::move(lost)) {}

  // The device is of no use any more.
  void Lose(const absl::Status& why) { lost_(why); }

  // Nor does it answer: who waits for it, or gives memory back to it, does so for ever.
  void Hang(const absl::Status& why) {
    hangs_ = true;
    Lose(why);
  }

  bool hangs() const { return hangs_; }

 private:
  const DeviceLost lost_;
  std::atomic<bool> hangs_{false};
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_DEVICE_STATE_H_
