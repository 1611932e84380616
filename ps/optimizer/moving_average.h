// The moving average of what steps push.
#ifndef MILLRACE_PS_OPTIMIZER_MOVING_AVERAGE_H_
#define MILLRACE_PS_OPTIMIZER_MOVING_AVERAGE_H_

#include <memory>

#include "protos/job.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// `slots`: of each element, which stay as they are. REQUIRES: `spec` has passed CheckUpdateRule.
std::unique_ptr<Optimizer> MakeMovingAverage(const MovingAverage& spec, int slots);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_MOVING_AVERAGE_H_
