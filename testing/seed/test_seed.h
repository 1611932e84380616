// Seeds of tests that choose at random. What a test begins with is printed before it does anything,
// so that it can be repeated whatever becomes of it:
//
//   bazel test TARGET --test_env=MILLRACE_SEED=17
#ifndef MILLRACE_TESTING_SEED_TEST_SEED_H_
#define MILLRACE_TESTING_SEED_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

#include "absl/strings/numbers.h"
#include "glog/logging.h"

namespace millrace {

// MILLRACE_SEED, or `otherwise`.
inline uint64_t TestSeedOr(uint64_t otherwise) {
  uint64_t seed = otherwise;
  if (const char* const text = std::getenv("MILLRACE_SEED"); text != nullptr) {
    CHECK(absl::SimpleAtoi(text, &seed)) << "MILLRACE_SEED: '" << text << "'; must be a number";
  }
  std::cout << "MILLRACE_SEED=" << seed << std::endl;
  return seed;
}

// The same; otherwise another one each time.
inline uint64_t TestSeed() { return TestSeedOr(std::random_device()()); }

}  // namespace millrace

#endif  // MILLRACE_TESTING_SEED_TEST_SEED_H_
