// Sums of gradients by NCCL (cuda::PieceSums), where they serve.
//
// NCCL promises no order of its sums, so a device that is deterministic adds gradients up itself.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_PIECE_SUMS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_PIECE_SUMS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/library.h"

namespace millrace::worker {

// Sums for the buckets of a model on these GPUs, together called `device_name`, before it takes
// memory. Each bucket's size was tried: NCCL takes memory when it first sees one, and there are
// machines on which it never ends. Null: our own sums are to serve, since the GPUs are
// deterministic, NCCL cannot be had, has not done that within `seconds`, or serves another model of
// this process on one of them. Logs which, and what memory NCCL takes. Blocks, for longer than
// `seconds` where a call of NCCL does not return.
std::unique_ptr<cuda::PieceSums> MakePieceSums(const std::vector<cuda::Gpu*>& gpus,
                                               const std::vector<GradientBucket>& buckets,
                                               const std::string& device_name, double seconds);

struct AwaitedEvent {
  cuda::Gpu* gpu = nullptr;
  const cuda::Event* event = nullptr;
};

// Waits for all of them. False: that took more than `seconds`. Throws as soon as one of the GPUs
// has failed, or `sums`, if there are any: what waits for a GPU that has would wait for ever.
// `at_work` is told which of `all` is asked.
bool AwaitAll(const std::vector<AwaitedEvent>& all, cuda::PieceSums* sums, double seconds,
              size_t* at_work);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_PIECE_SUMS_H_
