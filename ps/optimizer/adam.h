// Adam (Kingma and Ba, 2014).
#ifndef MILLRACE_PS_OPTIMIZER_ADAM_H_
#define MILLRACE_PS_OPTIMIZER_ADAM_H_

#include <memory>

#include "protos/job.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: `spec` has passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeAdam(const Adam& spec);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_ADAM_H_
