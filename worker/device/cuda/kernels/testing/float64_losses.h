// Losses, computed once more by the formulas of protos/output.proto, in float64.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_FLOAT64_LOSSES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_FLOAT64_LOSSES_H_

#include <vector>

#include "worker/device/cuda/kernels/testing/float64_layers.h"
#include "worker/input/batch.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// Of each example, not weighted. `values` are the output's, so small that their exponentials are
// finite.
Doubles Float64Losses(const OutputPlan& output, const Doubles& values, const Tensor& label);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_FLOAT64_LOSSES_H_
