// Adagrad (Duchi, Hazan and Singer, 2011).
#ifndef MILLRACE_PS_OPTIMIZER_ADAGRAD_H_
#define MILLRACE_PS_OPTIMIZER_ADAGRAD_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: the specs have passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeAdagrad(const Adagrad& spec, const LearningRateSchedule& schedule);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_ADAGRAD_H_
