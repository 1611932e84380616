#ifndef MILLRACE_WORKER_DEVICE_CUDA_DEVICE_LOST_H_
#define MILLRACE_WORKER_DEVICE_CUDA_DEVICE_LOST_H_

#include <functional>

#include "absl/status/status.h"

namespace millrace::worker {

// Told of a device that is of no use to this process any more; may be called by any thread, several
// times. Does not block.
using DeviceLost = std::function<void(const absl::Status& why)>;

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_DEVICE_LOST_H_
