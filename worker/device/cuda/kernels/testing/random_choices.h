// What tests of random shapes choose.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_RANDOM_CHOICES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_RANDOM_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/seed/test_seed.h"
#include "worker/model/shape.h"

namespace millrace::worker {

// Choices that follow from MILLRACE_SEED, or are always the same without.
class RandomChoices {
 public:
  std::string SeedString() const { return absl::StrCat("MILLRACE_SEED=", seed_); }

  size_t From(size_t least, size_t most) { return least + random_() % (most - least + 1); }
  bool Perhaps() { return From(0, 1) == 1; }
  const char* OneOf(const std::vector<const char*>& names) {
    return names[From(0, names.size() - 1)];
  }
  // `last` is the most of the last dimension.
  Shape RandomShape(size_t dimensions, size_t last) {
    Shape shape;
    for (size_t i = 1; i < dimensions; ++i) shape.push_back(From(1, 9));
    shape.push_back(From(1, last));
    return shape;
  }

  std::mt19937* random() { return &random_; }

 private:
  const uint64_t seed_ = TestSeedOr(20261124);
  std::mt19937 random_{static_cast<uint32_t>(seed_)};
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TESTING_RANDOM_CHOICES_H_
