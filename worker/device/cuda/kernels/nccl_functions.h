// What we call of NCCL. The library is not linked with it: a machine without NCCL has all but sums
// by it, and a machine with one GPU never loads it. Where its header was not there at build time,
// neither is any of this.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_FUNCTIONS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_FUNCTIONS_H_

#if __has_include(<nccl.h>)
#include <nccl.h>

namespace millrace::cuda {

struct NcclFunctions {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclCommInitAll) comm_init_all = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
};

// Loads libnccl.so.2 when it is first called; it stays loaded. Throws Error, which says why it
// cannot be. Thread-safe.
const NcclFunctions& LoadNccl();

}  // namespace millrace::cuda

#endif  // __has_include(<nccl.h>)

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_FUNCTIONS_H_
