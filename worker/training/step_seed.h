// What decides the dropout of a step, and how its pictures are changed.
#ifndef MILLRACE_WORKER_TRAINING_STEP_SEED_H_
#define MILLRACE_WORKER_TRAINING_STEP_SEED_H_

#include <cstdint>

#include "worker/split_mix.h"

namespace millrace::worker {

// A function of the job's seed and the step alone, so that a step that is computed again, anywhere,
// drops the same units of the same pictures.
inline uint64_t StepSeed(uint64_t job_seed, uint64_t step) {
  return SplitMix64(SplitMix64(job_seed) ^ step);
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_STEP_SEED_H_
