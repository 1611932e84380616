// Random numbers that are the same with every standard library.
#ifndef MILLRACE_TESTING_DIGITS_RANDOM_H_
#define MILLRACE_TESTING_DIGITS_RANDOM_H_

#include <cstdint>

namespace millrace::testing {

// SplitMix64. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  // At least `low` and below `high`.
  double Uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
  }

  // 0 to count - 1. REQUIRES: count >= 1, and small (there is a bias of count / 2^64).
  uint64_t Below(uint64_t count) { return Next() % count; }

  // Near enough to a normal distribution with variance 1; within -3.5 and 3.5.
  double Normal() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += Uniform(-1, 1);
    constexpr double kStddevOfSum = 1.1547005383792515;
    return sum / kStddevOfSum;
  }

 private:
  uint64_t state_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_DIGITS_RANDOM_H_
