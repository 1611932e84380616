// What decides the dropout of a step.
#ifndef MILLRACE_WORKER_TRAINING_STEP_SEED_H_
#define MILLRACE_WORKER_TRAINING_STEP_SEED_H_

#include <cstdint>

namespace millrace::worker {

// A function of the job's seed and the step alone, so that a step that is computed again, anywhere,
// drops the same units. SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014), applied to both.
inline uint64_t StepSeed(uint64_t job_seed, uint64_t step) {
  const auto mix = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  return mix(mix(job_seed) ^ step);
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_STEP_SEED_H_
