// FTRL-proximal (McMahan et al., 2013).
#ifndef MILLRACE_PS_OPTIMIZER_FTRL_H_
#define MILLRACE_PS_OPTIMIZER_FTRL_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: `spec` has passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeFtrl(const Ftrl& spec);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_FTRL_H_
