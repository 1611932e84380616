// Which class stands for which kind of layer and loss.
#ifndef MILLRACE_WORKER_DEVICE_CPU_MEMBERS_H_
#define MILLRACE_WORKER_DEVICE_CPU_MEMBERS_H_

#include <cstddef>
#include <memory>

#include "worker/device/cpu/context.h"
#include "worker/device/cpu/layer.h"
#include "worker/device/cpu/loss.h"
#include "worker/model/layer_plan.h"
#include "worker/model/output_plan.h"

namespace millrace::worker {

// The layer at `index` of a model. `context` must outlive it. `input_gradient`: whether Backward
// will be asked for one. REQUIRES: the plan is checked, and the layer is no view.
std::unique_ptr<CpuLayer> MakeCpuLayer(CpuContext* context, const LayerPlan& plan, size_t index,
                                       const CpuParameters& parameters, bool input_gradient);

// REQUIRES: the plan is checked.
std::unique_ptr<CpuLoss> MakeCpuLoss(const OutputPlan& output);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_MEMBERS_H_
