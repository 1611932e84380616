// How many steps an epoch has: the same number to whoever hands steps out, computes or checks them.
#ifndef MILLRACE_COMMON_STEPS_PER_EPOCH_H_
#define MILLRACE_COMMON_STEPS_PER_EPOCH_H_

#include <cstdint>

namespace millrace {

// ceil(examples / batch_size): each step takes `batch_size` examples, the last of an epoch what is
// left; none is dropped. 0 where there are no examples. REQUIRES: batch_size >= 1.
inline constexpr uint64_t StepsPerEpoch(uint64_t examples, uint64_t batch_size) {
  return examples / batch_size + (examples % batch_size != 0 ? 1 : 0);
}

}  // namespace millrace

#endif  // MILLRACE_COMMON_STEPS_PER_EPOCH_H_
