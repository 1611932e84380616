// RMSprop, plain or centered, with momentum if wanted.
#ifndef MILLRACE_PS_OPTIMIZER_RMSPROP_H_
#define MILLRACE_PS_OPTIMIZER_RMSPROP_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: the specs have passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeRmsProp(const RmsProp& spec, const LearningRateSchedule& schedule);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_RMSPROP_H_
