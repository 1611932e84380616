// LAMB (You et al., 2019).
#ifndef MILLRACE_PS_OPTIMIZER_LAMB_H_
#define MILLRACE_PS_OPTIMIZER_LAMB_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: the specs have passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeLamb(const Lamb& spec, const LearningRateSchedule& schedule);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_LAMB_H_
