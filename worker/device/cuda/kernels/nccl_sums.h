#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_SUMS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_SUMS_H_

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <vector>

#include "worker/device/cuda/library.h"

namespace millrace::cuda {

// A GPU as NCCL takes it.
struct NcclMember {
  int index = 0;
  std::function<cudaStream_t(Stream)> stream;
};

// As Gpu::MakePieceSums.
std::unique_ptr<PieceSums> MakeNcclSums(std::vector<NcclMember> members);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_NCCL_SUMS_H_
