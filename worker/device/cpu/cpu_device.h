// Models on the CPU, by oneDNN.
#ifndef MILLRACE_WORKER_DEVICE_CPU_CPU_DEVICE_H_
#define MILLRACE_WORKER_DEVICE_CPU_CPU_DEVICE_H_

#include <memory>
#include <string>

#include "worker/device/device.h"

namespace millrace::worker {

// Each of its models runs in the thread that calls it, with a team of `threads` (at least 1).
// Models run at the same time in different threads. With an equal number of threads and an equal
// kind of processor, equal values and batches give equal bits, in any process.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads = 1);

  const std::string& name() const override { return name_; }
  std::string description() const override;
  absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan,
                                                 const BatchSizes& batches) override;

 private:
  const std::string name_ = "cpu";
  const int threads_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_CPU_DEVICE_H_
