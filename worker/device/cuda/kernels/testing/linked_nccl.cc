// In the place of nccl_loader.cu: NCCL is linked in.
#include "testing/cuda_emulation/nccl_control.h"
#include "worker/device/cuda/kernels/nccl_functions.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {

const NcclFunctions& LoadNccl() {
  static constexpr NcclFunctions kFunctions = {
      .get_version = &ncclGetVersion,
      .get_error_string = &ncclGetErrorString,
      .get_last_error = &ncclGetLastError,
      .comm_init_all = &ncclCommInitAll,
      .comm_destroy = &ncclCommDestroy,
      .comm_abort = &ncclCommAbort,
      .comm_get_async_error = &ncclCommGetAsyncError,
      .group_start = &ncclGroupStart,
      .group_end = &ncclGroupEnd,
      .reduce_scatter = &ncclReduceScatter,
  };
  if (!cuda_emulation::NcclMissing()) return kFunctions;
  throw Error(Error::kOther, "NCCL cannot be loaded: libnccl.so.2: cannot open shared object file");
}

}  // namespace millrace::cuda
