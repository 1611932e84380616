// The sum of the squares of floats, exactly.
#ifndef MILLRACE_COMMON_EXACT_SQUARE_SUM_H_
#define MILLRACE_COMMON_EXACT_SQUARE_SUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace {

// The square of a float is a whole number of 2^-298, so the sum of any squares is one too: it is
// kept as that, in 640 bits, and neither the order in which they are added nor how they are divided
// between several sums can show in it. A value type; not thread-safe.
class ExactSquareSum {
 public:
  // Adds the squares of `values`. REQUIRES: less than 2^64 in all.
  void Add(absl::Span<const float> values);
  void Add(const ExactSquareSum& other);

  // Whether all values were finite; otherwise nothing else is known of the sum.
  bool is_finite() const { return is_finite_; }

  // The nearest double, ties to even; infinite where a value was not finite.
  double ToDouble() const;

  // In units of 2^-298, the lowest word first, without those that are 0 at the end.
  std::vector<uint64_t> ToWords() const;
  // INVALID_ARGUMENT: too many words.
  static absl::StatusOr<ExactSquareSum> FromWords(absl::Span<const uint64_t> words, bool is_finite);

 private:
  // 2^38 squares below 2^256 each, and room for as many sums of them.
  static constexpr size_t kWords = 10;

  // Adds value * 2^shift units.
  void AddShifted(uint64_t value, size_t shift);
  void AddAt(size_t word, uint64_t value);

  std::array<uint64_t, kWords> words_ = {};
  bool is_finite_ = true;
};

// Whether they are the same bits: NaN is the same as itself.
bool SameNorm(double a, double b);

// What a gradient with this norm is multiplied by for its norm to be at most `clip_norm`: 1, or
// clip_norm / norm; NaN where the norm is not finite. REQUIRES: clip_norm > 0.
float ClipFactor(double norm, double clip_norm);

}  // namespace millrace

#endif  // MILLRACE_COMMON_EXACT_SQUARE_SUM_H_
