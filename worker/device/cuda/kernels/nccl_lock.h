// Keeps NCCL apart from calls of CUDA that wait for the work of GPUs.
//
// One thread enqueues a sum of NCCL's to all of its GPUs, one after the other. The first one's
// kernel runs at once, and waits for those of the others. If another thread's call waits for that
// kernel, and CUDA enqueues nothing until it returns, neither ever ends. Such may be calls that
// take or give back memory of a GPU or the host, others that do so unseen (handles, graphs), trials
// of products, and what loads a kernel, which is done when it is first used. They share this lock;
// NCCL has it for itself.
//
// Who does not get it in time goes on without it: who has it may be in a call that does not return,
// since a GPU hangs, or since it waits for NCCL's kernels, which wait for a GPU that is lost. The
// latter are ended by whoever looks at the sum, and he has to come so far.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_LOCK_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_LOCK_H_

#include <mutex>
#include <shared_mutex>

namespace millrace::cuda {

// Thread-safe; block, for 5 s at most. Not for a thread that has the lock already, not even to
// share it twice: were a sum asked for in between, the second one would wait behind it, and it for
// the first one.
[[nodiscard]] std::shared_lock<std::shared_timed_mutex> ShareNcclLock();
[[nodiscard]] std::unique_lock<std::shared_timed_mutex> TakeNcclLock();

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_LOCK_H_
