// Gradient descent, with momentum or Nesterov's momentum if wanted.
#ifndef MILLRACE_PS_OPTIMIZER_SGD_H_
#define MILLRACE_PS_OPTIMIZER_SGD_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: the specs have passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeSgd(const Sgd& spec, const LearningRateSchedule& schedule);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_SGD_H_
