// Adam (Kingma and Ba, 2014), AMSGrad (Reddi et al., 2018) and AdamW (Loshchilov and Hutter, 2017).
#ifndef MILLRACE_PS_OPTIMIZER_ADAM_H_
#define MILLRACE_PS_OPTIMIZER_ADAM_H_

#include <memory>

#include "protos/optimizer.pb.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// REQUIRES: the specs have passed CheckOptimizerSpec.
std::unique_ptr<Optimizer> MakeAdam(const Adam& spec, const LearningRateSchedule& schedule);
std::unique_ptr<Optimizer> MakeAdamW(const AdamW& spec, const LearningRateSchedule& schedule);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_ADAM_H_
