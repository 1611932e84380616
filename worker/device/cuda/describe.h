// Layers and losses of plans, as the CUDA library takes them.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_DESCRIBE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_DESCRIBE_H_

#include <memory>

#include "protos/job.pb.h"
#include "worker/device/cuda/library.h"
#include "worker/model/layer_plan.h"
#include "worker/model/output_plan.h"
#include "worker/model/walk.h"

namespace millrace::worker {

// What computes a step of a walk, whose layer has this plan. `gpu` must outlive it. Throws
// cuda::Error. REQUIRES: the plan is checked.
std::unique_ptr<cuda::Layer> MakeCudaLayer(cuda::Gpu* gpu, const LayerPlan& plan,
                                           const ForwardStep& step, cuda::Precision precision);

cuda::Precision PrecisionOf(PrecisionSpec::Compute compute);

// As MakeCudaLayer.
std::unique_ptr<cuda::Loss> MakeCudaLoss(cuda::Gpu* gpu, const OutputPlan& output);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_DESCRIBE_H_
