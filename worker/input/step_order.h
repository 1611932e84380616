// Which examples a step uses: a function of the job alone.
#ifndef MILLRACE_WORKER_INPUT_STEP_ORDER_H_
#define MILLRACE_WORKER_INPUT_STEP_ORDER_H_

#include <cstdint>
#include <vector>

namespace millrace::worker {

// Step n is batch n mod S of epoch n div S, where an epoch has S = ceil(examples / batch_size)
// batches, the last of which may be short. Position p of epoch e is example P(seed, e)(p), where P
// is a permutation that is computed, not stored: a Feistel network over the next power of four,
// walked until it lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
// What follows from a seed never changes between releases.
// A value type; thread-safe.
class StepOrder {
 public:
  // REQUIRES: examples >= 1, batch_size >= 1.
  StepOrder(uint64_t examples, uint64_t batch_size, uint64_t seed, bool shuffle);

  uint64_t steps_per_epoch() const { return steps_per_epoch_; }

  // The indices of step n's examples, in order.
  std::vector<uint64_t> Examples(uint64_t step) const;

 private:
  uint64_t Permute(uint64_t epoch, uint64_t position) const;

  uint64_t examples_;
  uint64_t batch_size_;
  uint64_t seed_;
  bool shuffle_;
  uint64_t steps_per_epoch_;
  int half_bits_;  // The network permutes numbers of 2 * half_bits_ bits.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_STEP_ORDER_H_
