// What the bits of a model's results on GPUs depend on, beside its inputs.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_CUDA_NUMERICS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_CUDA_NUMERICS_H_

#include <string>
#include <vector>

#include "protos/job.pb.h"
#include "worker/device/cuda/library.h"

namespace millrace::worker {

// For JobPlan.numerics: "cuda, 2 x NVIDIA H200 (sm_90), bfloat16, CUDA 13.1, cuBLASLt 13.1.0,
// products 3fa2c1d0". The last is a hash of the algorithms that cuBLASLt's heuristics have chosen
// for the model's products so far: drivers and boards of one name may choose otherwise. It is left
// out where there is no product. What is longer than 178 characters is shortened in the GPUs'
// names, which then end with a hash of them: with what is said of the wire the coordinator takes
// 200. Throws cuda::Error.
std::string CudaNumerics(const std::vector<cuda::Gpu*>& gpus, PrecisionSpec::Compute precision);

// Logs how many products there are, and their hash; at verbose level 1 a line for each.
void LogProducts(const std::vector<cuda::Gpu*>& gpus, const std::string& device_name);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_CUDA_NUMERICS_H_
