// Layers and losses of plans, as the CUDA library takes them.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_DESCRIBE_H_
#define MILLRACE_WORKER_DEVICE_CUDA_DESCRIBE_H_

#include <cstddef>
#include <memory>

#include "protos/job.pb.h"
#include "worker/device/cuda/library.h"
#include "worker/model/layer_plan.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// The layer at `index` of a model, and what its step applies then (ForwardStep::then). `gpu` must
// outlive it. Throws cuda::Error. REQUIRES: the plan is checked, and the layer is no view.
std::unique_ptr<cuda::Layer> MakeCudaLayer(cuda::Gpu* gpu, const LayerPlan& plan, size_t index,
                                           cuda::Precision precision, Activation then = LINEAR);

cuda::Precision PrecisionOf(PrecisionSpec::Compute compute);

// As MakeCudaLayer.
std::unique_ptr<cuda::Loss> MakeCudaLoss(cuda::Gpu* gpu, const OutputPlan& output);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_DESCRIBE_H_
