// What a GPU is used for, told by the models that run on it.
#ifndef MILLRACE_WORKER_DEVICE_DEVICE_METER_H_
#define MILLRACE_WORKER_DEVICE_DEVICE_METER_H_

#include <atomic>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace millrace::worker {

// Thread-safe.
class DeviceMeter {
 public:
  // The whole device's memory, of several GPUs that of all, and what is used of it by all
  // processes; in bytes.
  void SetMemory(uint64_t memory, uint64_t used) {
    memory_ = memory;
    memory_used_ = used;
  }
  // The device was at a model's work for so long.
  void AddBusy(absl::Duration busy) { busy_nanoseconds_ += absl::ToInt64Nanoseconds(busy); }

  uint64_t memory() const { return memory_; }  // 0: not known yet.
  uint64_t memory_used() const { return memory_used_; }
  // Of all models, since the meter was made.
  absl::Duration busy() const { return absl::Nanoseconds(busy_nanoseconds_.load()); }

 private:
  std::atomic<uint64_t> memory_{0};
  std::atomic<uint64_t> memory_used_{0};
  std::atomic<int64_t> busy_nanoseconds_{0};
};

// Counts the time from here to the end of the block.
class BusyTime {
 public:
  explicit BusyTime(DeviceMeter* meter) : meter_(meter), begin_(absl::Now()) {}
  ~BusyTime() { meter_->AddBusy(absl::Now() - begin_); }
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  DeviceMeter* const meter_;
  const absl::Time begin_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_DEVICE_METER_H_
