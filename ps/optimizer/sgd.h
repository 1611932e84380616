// Gradient descent, with momentum or Nesterov's momentum if wanted.
#ifndef MILLRACE_PS_OPTIMIZER_SGD_H_
#define MILLRACE_PS_OPTIMIZER_SGD_H_

#include <memory>

#include "protos/job.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: `spec` has passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeSgd(const Sgd& spec);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_SGD_H_
