// Values that go to the GPUs while others are still on their way to the host.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_ARRIVING_VALUES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_ARRIVING_VALUES_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "common/mutex.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"

namespace millrace::worker {

// Knows which variables' values were told of as they came, whose copies are on their way since, and
// which were not. Thread-safe.
//
// Why the device has what was told of last: the call that tells of a piece adds its copy, and
// copies run in the order in which they are added, each taking what stands there when it runs.
// Whoever writes a place again does so once that call has returned. The copy of the older values
// may run while the newer ones are written, and take some of both; that of the newer ones comes
// after it. The step, which waits for the stream, comes after both.
class ArrivingValues {
 public:
  // Adds a copy to every GPU, of `bytes` from `begin` on of all values: where copies are in one
  // order, and run after all that reads older values there. Does not block. Throws cuda::Error.
  using Copy = std::function<void(size_t begin, size_t bytes)>;

  // No variable has been told of. `places` must outlive it.
  ArrivingValues(const VariablePlaces& places, Copy copy);

  // The variable is not told of from now on, until it is.
  void Forget(size_t variable) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the copy of `count` of its elements, from `first` on. Returns an error, if one is found;
  // CopyRest throws it too, and nothing more is added before.
  absl::optional<cuda::Error> Arrived(size_t variable, size_t first, size_t count)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the copies of all variables that were not told of; after an error that is all of them.
  void CopyRest() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const VariablePlaces& places_;
  const Copy copy_;

  Mutex mutex_;  // Guards what follows, and is held while copies are enqueued.
  std::vector<bool> told_ ABSL_GUARDED_BY(mutex_);  // By variable.
  absl::optional<cuda::Error> error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_ARRIVING_VALUES_H_
