// How much a layer computes.
#ifndef MILLRACE_WORKER_MODEL_FLOPS_H_
#define MILLRACE_WORKER_MODEL_FLOPS_H_

#include "worker/model/layer_plan.h"

namespace millrace::worker {

// Of the forward pass of one example: the multiplications and additions of dense layers and
// convolutions; of other layers one operation for each number that they take. The backward pass
// takes about twice as many. A double, since layers can be large.
double ForwardFlops(const LayerPlan& layer);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_FLOPS_H_
