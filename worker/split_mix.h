// A mixer of 64-bit numbers whose results are fixed for ever: the order of examples and the dropout
// follow from it. Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#ifndef MILLRACE_WORKER_SPLIT_MIX_H_
#define MILLRACE_WORKER_SPLIT_MIX_H_

#include <cstdint>

namespace millrace::worker {

inline constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

// SplitMix64's finalizer: a bijection in which each input bit changes half of the output bits.
constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The first number that SplitMix64 gives after the seed `x`. Also a bijection, and 0 is nothing
// special.
constexpr uint64_t SplitMix64(uint64_t x) { return Mix64(x + kGoldenRatio); }

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_SPLIT_MIX_H_
