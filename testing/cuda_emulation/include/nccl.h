// NCCL, as far as one process that sums up floats of several GPUs needs it: ncclReduceScatter in
// groups that one thread makes for all ranks. What is enqueued runs when all ranks' streams have
// come to it, and each rank's result is there at a time of its own. Of a rank whose device is lost
// or hangs the others wait for ever, until they are aborted. Sums are made in an order that differs
// from piece to piece, as NCCL's do.
//
// It checks what NCCL documents, and where NCCL would hang or write elsewhere it stops the process
// with a message: a group that not all ranks of a communicator take part in, or with different
// counts; a call for one of several ranks outside of a group; memory that is not that rank's
// device's; results that overlap what is sent and are not in place; communicators that are
// destroyed while what they do can never end. A communicator takes some memory of its device, and
// more at its first sum.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_NCCL_H_
#define MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_NCCL_H_

#include <cuda_runtime.h>

#include <cstddef>

// NOLINTBEGIN(readability-identifier-naming): NCCL's names.

#define NCCL_VERSION_CODE 22809

using ncclComm_t = struct ncclComm*;

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

// Others are not emulated.
enum ncclDataType_t : int { ncclFloat32 = 7, ncclFloat = 7 };
enum ncclRedOp_t : int { ncclSum = 0 };

// NOLINTEND(readability-identifier-naming)

extern "C" {

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);

}  // extern "C"

#endif  // MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_NCCL_H_
