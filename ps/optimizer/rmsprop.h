// RMSprop, plain or centered, with momentum if wanted.
#ifndef MILLRACE_PS_OPTIMIZER_RMSPROP_H_
#define MILLRACE_PS_OPTIMIZER_RMSPROP_H_

#include <memory>

#include "protos/job.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: `spec` has passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeRmsProp(const RmsProp& spec);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_RMSPROP_H_
