// Generated digits in MNIST's format, for examples and tests that need no download.
#ifndef MILLRACE_TESTING_DIGITS_DIGIT_SET_H_
#define MILLRACE_TESTING_DIGITS_DIGIT_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millrace::testing {

struct DigitSet {
  std::vector<uint8_t> pixels;  // 28 * 28 bytes for each digit, row by row.
  std::vector<uint8_t> labels;
};

// Digit i of a stream is a function of (seed, stream, i) alone: a smaller set is the beginning of a
// larger one.
DigitSet MakeDigitSet(uint64_t count, uint64_t seed, uint64_t stream);

struct DigitFilesOptions {
  uint64_t train = 6000;     // Digits to train with; at least 1.
  uint64_t evaluate = 1000;  // Held-out digits; at least 1.
  uint64_t seed = 1;
  bool gzip = false;  // Compress, and add .gz to the names.
};

// Writes train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte (MNIST's names) to `directory`, which is made where it is absent; files of
// these names are replaced. Blocks while it writes.
// INVALID_ARGUMENT: a count is 0 or above 2^32 - 1. UNAVAILABLE: a file cannot be written, with
// its path.
absl::Status WriteDigitFiles(const std::string& directory, const DigitFilesOptions& options);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_DIGITS_DIGIT_SET_H_
