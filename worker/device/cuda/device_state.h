// What a process knows of a GPU: whether it is lost, and which calls of CUDA are under way.
//
// A GPU that hangs does so in two ways. A kernel does not end: who waits for it does so with a
// deadline (cuda::Gpu::HostWaitFor). Or a call of CUDA itself does not return: cudaMalloc, cudaFree
// and their kin wait for all work of the GPU, that of others too. Such a thread cannot be woken, so
// another one watches the time, and tells whose GPU it is.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_DEVICE_STATE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_DEVICE_STATE_H_

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "worker/device/cuda/device_lost.h"

namespace millrace::worker {

// What a process may always take to make a model or to give it back, however short its timeout is
// for steps: gigabytes are allocated, pinned and filled, kernels are loaded and graphs captured.
inline constexpr absl::Duration kLeastMakingTimeout = absl::Seconds(120);

// Thread-safe.
class DeviceState {
 public:
  // `name`: "cuda:0".
  DeviceState(std::string name, absl::Duration timeout,
              absl::Duration least_making_timeout = kLeastMakingTimeout);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  // How long the device may take for a step, and a call of CUDA that belongs to one to return.
  absl::Duration timeout() const { return timeout_; }

  // How long making a model may take, giving it back, and so for pinned memory. At least timeout().
  absl::Duration making_timeout() const { return making_timeout_; }

  // `lost` is told when the device is; at once if it is already.
  void AddListener(DeviceLost lost) ABSL_LOCKS_EXCLUDED(mutex_);

  // The device is of no use any more. All listeners are told, the first time.
  void Lose(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nor does it answer: who waits for it, or gives memory back to it, does so for ever.
  void Hang(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  bool lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool hangs() const ABSL_LOCKS_EXCLUDED(mutex_);  // Then it is lost, too.

  struct Begun {
    std::chrono::steady_clock::time_point at;
    const char* doing;
    absl::Duration limit;
  };
  using Calls = std::list<Begun>;

  // Waits for `patience` at most until there is no Call. False: there is one.
  bool AwaitCalls(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

  // While it lives its thread is in calls of CUDA. The device hangs if that takes longer than
  // `limit` (and an eighth of the timeout).
  class Call {
   public:
    // `doing`: for the message, as "makes a model".
    Call(DeviceState* state, const char* doing, absl::Duration limit);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    DeviceState* const state_;
    Calls::iterator begun_;
  };

 private:
  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);
  // One that takes longer than it may.
  absl::optional<Begun> Overdue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const absl::Duration timeout_;
  const absl::Duration making_timeout_;
  mutable Mutex mutex_;  // Guards what follows. Listeners are called without it.
  CondVar ends_cond_;
  CondVar idle_cond_;
  std::vector<DeviceLost> listeners_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // OK: it is not.
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  Calls calls_ ABSL_GUARDED_BY(mutex_);  // The oldest first.

  std::thread watch_;  // Last: it starts when the rest is ready.
};

// Keeps what a GPU that hangs is not asked to give back, until the process ends. Thread-safe.
void KeepForEver(std::shared_ptr<void> thing);

// The GPUs of a process, for workers that share them: all are told of a loss, whichever finds it.
// Thread-safe.
class SharedGpus {
 public:
  explicit SharedGpus(absl::Duration least_making_timeout = kLeastMakingTimeout)
      : least_making_timeout_(least_making_timeout) {}

  // Of those together called `name`: "cuda:0". `timeout` is that of the first who asks.
  std::shared_ptr<DeviceState> Of(const std::string& name, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const absl::Duration least_making_timeout_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<DeviceState>> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_DEVICE_STATE_H_
