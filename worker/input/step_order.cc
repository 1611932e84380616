#include "worker/input/step_order.h"

#include <algorithm>

#include "absl/numeric/bits.h"
#include "common/steps_per_epoch.h"
#include "glog/logging.h"
#include "worker/split_mix.h"

namespace millrace::worker {
namespace {

// Four make a good permutation of a large domain (Luby and Rackoff). With twelve all orders of a
// handful of examples come up equally often, too, as far as a test can tell.
constexpr int kRounds = 12;

// A permutation of the numbers of 2 * half_bits bits: each round swaps the halves and changes one
// by a function of the other, which can be undone whatever the function is.
uint64_t Feistel(uint64_t key, int half_bits, uint64_t x) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = x >> half_bits;
  uint64_t right = x & mask;
  for (int round = 0; round < kRounds; ++round) {
    key += kGoldenRatio;
    const uint64_t changed = left ^ (Mix64(key + right) & mask);
    left = right;
    right = changed;
  }
  return left << half_bits | right;
}

}  // namespace

StepOrder::StepOrder(uint64_t examples, uint64_t batch_size, uint64_t seed, bool shuffle)
    : examples_(examples), batch_size_(batch_size), seed_(seed), shuffle_(shuffle) {
  CHECK_GE(examples, 1u);
  CHECK_GE(batch_size, 1u);
  steps_per_epoch_ = StepsPerEpoch(examples, batch_size);
  half_bits_ = (absl::bit_width(examples - 1) + 1) / 2;
}

std::vector<uint64_t> StepOrder::Examples(uint64_t step) const {
  const uint64_t epoch = step / steps_per_epoch_;
  const uint64_t begin = step % steps_per_epoch_ * batch_size_;
  std::vector<uint64_t> indices(std::min(batch_size_, examples_ - begin));
  for (uint64_t i = 0; i < indices.size(); ++i) {
    indices[i] = shuffle_ ? Permute(epoch, begin + i) : begin + i;
  }
  return indices;
}

uint64_t StepOrder::Permute(uint64_t epoch, uint64_t position) const {
  const uint64_t key = Mix64(SplitMix64(seed_) + epoch);
  // The walk stays on the cycle of `position`, so it ends at the latest there, and no two positions
  // meet: cutting the outside numbers out of the cycles of a permutation leaves a permutation. The
  // network's domain is less than four times as large, so four steps are the most to expect.
  uint64_t x = position;
  do {
    x = Feistel(key, half_bits_, x);
  } while (x >= examples_);
  // A network of more than two bits makes only even permutations. Exchanging two of the examples,
  // for one key in two, makes the odd ones as likely.
  const bool exchange = key >> 63 != 0 && examples_ > 1;
  return exchange && x < 2 ? 1 - x : x;
}

}  // namespace millrace::worker
