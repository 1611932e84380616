// Adadelta (Zeiler, 2012).
#ifndef MILLRACE_PS_OPTIMIZER_ADADELTA_H_
#define MILLRACE_PS_OPTIMIZER_ADADELTA_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: the specs have passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeAdadelta(const Adadelta& spec, const LearningRateSchedule& schedule);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_ADADELTA_H_
