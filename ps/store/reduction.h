// The weighted mean of a version's contributions.
#ifndef MILLRACE_PS_STORE_REDUCTION_H_
#define MILLRACE_PS_STORE_REDUCTION_H_

#include <vector>

#include "ps/store/push_table.h"
#include "ps/store/staged_update.h"

namespace millrace::ps {

// Gives every element of the mean of complete `contributions`, in their order, to `update`
// (the formula is in version_rule.h). REQUIRES: at least one contribution.
void ReduceInto(const ShardLayout& layout, const std::vector<PushPtr>& contributions,
                StagedUpdate* update);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_STORE_REDUCTION_H_
