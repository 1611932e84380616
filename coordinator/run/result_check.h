// What a worker must report of a step that it was given.
#ifndef MILLRACE_COORDINATOR_RUN_RESULT_CHECK_H_
#define MILLRACE_COORDINATOR_RUN_RESULT_CHECK_H_

#include <cstdint>

namespace millrace::coordinator {

// How many examples a step computes: fewer at an epoch's end. 0: not known, since one of both is 0.
uint64_t ExamplesOfStep(uint64_t step, uint64_t batch_size, uint64_t train_examples);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_RESULT_CHECK_H_
