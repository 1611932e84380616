// Finds the CUDA library of this installation.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_LIBRARY_LOADER_H_
#define MILLRACE_WORKER_DEVICE_CUDA_LIBRARY_LOADER_H_

#include "absl/status/statusor.h"
#include "worker/device/cuda/library.h"

namespace millrace::worker {

// Loads libmillrace_cuda.so, which stands beside the binary or where LD_LIBRARY_PATH says; it stays
// loaded. UNAVAILABLE: there is none, CUDA's own libraries are not there, or it is of another
// version than this binary. Thread-safe.
absl::StatusOr<cuda::Library*> LoadCudaLibrary();

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_LIBRARY_LOADER_H_
