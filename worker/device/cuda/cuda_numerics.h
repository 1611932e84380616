#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_NUMERICS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_NUMERICS_H_

#include <memory>
#include <string>
#include <vector>

#include "protos/job.pb.h"
#include "worker/device/cuda/cuda_replica.h"

namespace millrace::worker {

// What the bits of results depend on (Model::numerics).
std::string CudaNumerics(const std::vector<std::unique_ptr<CudaReplica>>& replicas,
                         PrecisionSpec::Compute precision);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_NUMERICS_H_
