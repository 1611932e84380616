// Gradients that are kept within bounds.
#ifndef MILLRACE_PS_OPTIMIZER_CLIPPING_H_
#define MILLRACE_PS_OPTIMIZER_CLIPPING_H_

#include <memory>

#include "ps/optimizer/optimizer.h"

namespace millrace::ps {

// An optimizer that does as `optimizer` does with a gradient whose elements are brought into
// [-clip_value, clip_value]; one that is not a number stays that. REQUIRES: clip_value > 0.
std::unique_ptr<Optimizer> ClipGradients(std::unique_ptr<Optimizer> optimizer, float clip_value);

// One that does as `optimizer` does with a variable's gradient that is made so small that its norm
// is clip_norm, where it is larger. REQUIRES: clip_norm > 0.
std::unique_ptr<Optimizer> ClipGradientNorms(std::unique_ptr<Optimizer> optimizer,
                                             double clip_norm);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_CLIPPING_H_
