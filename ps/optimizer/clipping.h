// Gradients whose elements are kept within bounds.
#ifndef MILLRACE_PS_OPTIMIZER_CLIPPING_H_
#define MILLRACE_PS_OPTIMIZER_CLIPPING_H_

#include <memory>

#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// An optimizer that does as `optimizer` does with a gradient whose elements are brought into
// [-clip_value, clip_value]; one that is not a number stays that. REQUIRES: clip_value > 0.
std::unique_ptr<Optimizer> ClipGradients(std::unique_ptr<Optimizer> optimizer, float clip_value);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_CLIPPING_H_
