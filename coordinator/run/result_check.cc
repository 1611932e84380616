#include "coordinator/run/result_check.h"

#include <algorithm>

#include "common/steps_per_epoch.h"

namespace millrace::coordinator {

uint64_t ExamplesOfStep(uint64_t step, uint64_t batch_size, uint64_t train_examples) {
  if (batch_size == 0 || train_examples == 0) return 0;
  const uint64_t begin = step % StepsPerEpoch(train_examples, batch_size) * batch_size;
  return std::min(batch_size, train_examples - begin);
}

}  // namespace millrace::coordinator
