// What tests say to the emulated NCCL (include/nccl.h). Reset (control.h) undoes it. Thread-safe.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_NCCL_CONTROL_H_
#define MILLRACE_TESTING_CUDA_EMULATION_NCCL_CONTROL_H_

#include <cstddef>
#include <cstdint>

namespace cuda_emulation {

// As where there is no libnccl.so.2. Whoever takes the place of the dynamic linker asks.
void SetNcclMissing();
bool NcclMissing();

// What ncclGetVersion says from now on.
void SetNcclVersion(int version);

// Faults. `n` counts from this call, from 1.
// The nth call of ncclCommInitAll returns ncclSystemError.
void FailNcclInit(int n);
// The nth group that is ended returns ncclInternalError, and enqueues nothing.
void FailNcclGroup(int n);
// The nth sum that runs never ends, until its communicators are aborted: they say ncclRemoteError
// from then on.
void FailNcclSum(int n);

// Not destroyed or aborted yet.
size_t NcclCommunicators();
// Sums of all ranks together that ran, since the process began.
uint64_t NcclSums();

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_NCCL_CONTROL_H_
