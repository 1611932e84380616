// A float is m * 2^(e - 150) with m < 2^24 and 1 <= e <= 254, so its square is m^2 * 2^(2e - 2)
// units of 2^-298. The m^2 of one e are added up in a word of their own, 2^16 of them at most, each
// below 2^48; then the words go to their places in the large number. So an element costs a
// multiplication and an addition of whole numbers.
#include "common/exact_square_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

constexpr int kUnitExponent = -298;
constexpr size_t kWordBits = 64;
constexpr int kMantissaBits = 53;  // Of a double.
constexpr size_t kExponents = 256;
constexpr size_t kNotFinite = 255;  // The exponent's field of what is infinite or NaN.
constexpr size_t kMostAtOnce = size_t{1} << 16;
// Sums of one exponent: processors add to a word again only some time after the last addition.
constexpr size_t kLanes = 4;

using Lanes = std::array<std::array<uint64_t, kExponents>, kLanes>;

void AddSquare(float value, std::array<uint64_t, kExponents>& sums) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t exponent = (bits >> 23) & 0xff;
  const uint64_t fraction = bits & 0x7fffff;
  const uint64_t mantissa = exponent == 0 ? fraction : fraction | 0x800000;
  sums[exponent] += mantissa * mantissa;
}

}  // namespace

void ExactSquareSum::Add(absl::Span<const float> values) {
  for (; !values.empty(); values.remove_prefix(std::min(values.size(), kMostAtOnce))) {
    Lanes lanes = {};
    const absl::Span<const float> some = values.subspan(0, kMostAtOnce);
    for (size_t i = 0; i < some.size(); ++i) AddSquare(some[i], lanes[i % kLanes]);
    for (size_t exponent = 0; exponent < kExponents; ++exponent) {
      uint64_t sum = 0;
      for (const auto& lane : lanes) sum += lane[exponent];
      if (sum == 0) continue;
      if (exponent == kNotFinite) {
        is_finite_ = false;
      } else {
        // Numbers below the smallest normal one have the same unit as those just above it.
        AddShifted(sum, 2 * (std::max<size_t>(exponent, 1) - 1));
      }
    }
  }
}

void ExactSquareSum::Add(const ExactSquareSum& other) {
  is_finite_ = is_finite_ && other.is_finite_;
  for (size_t word = 0; word < kWords; ++word) AddAt(word, other.words_[word]);
}

void ExactSquareSum::AddShifted(uint64_t value, size_t shift) {
  const size_t word = shift / kWordBits;
  const size_t bits = shift % kWordBits;
  AddAt(word, value << bits);
  if (bits > 0) AddAt(word + 1, value >> (kWordBits - bits));
}

void ExactSquareSum::AddAt(size_t word, uint64_t value) {
  while (value > 0 && word < kWords) {
    words_[word] += value;
    value = words_[word] < value ? 1 : 0;  // What is carried.
    ++word;
  }
}

double ExactSquareSum::ToDouble() const {
  if (!is_finite_) return std::numeric_limits<double>::infinity();
  size_t top = kWords;
  while (top > 0 && words_[top - 1] == 0) --top;
  if (top == 0) return 0;
  // The highest 64 bits, from the first that is set on; and whether any below them is set.
  const int leading = absl::countl_zero(words_[top - 1]);
  uint64_t high = words_[top - 1] << leading;
  const uint64_t next = top > 1 ? words_[top - 2] : 0;
  if (leading > 0) high |= next >> (static_cast<int>(kWordBits) - leading);
  bool rest = leading > 0 ? (next << leading) != 0 : next != 0;
  for (size_t word = 0; word + 2 < top; ++word) rest = rest || words_[word] != 0;
  // Rounded to 53 bits.
  constexpr int kDropped = static_cast<int>(kWordBits) - kMantissaBits;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  const uint64_t dropped = high & (2 * kHalf - 1);
  uint64_t mantissa = high >> kDropped;
  const bool is_odd = (mantissa & 1) != 0;
  if (dropped > kHalf || (dropped == kHalf && (rest || is_odd))) ++mantissa;
  const int exponent = static_cast<int>(top * kWordBits) - leading - kMantissaBits + kUnitExponent;
  return std::ldexp(static_cast<double>(mantissa), exponent);
}

std::vector<uint64_t> ExactSquareSum::ToWords() const {
  std::vector<uint64_t> words(words_.begin(), words_.end());
  while (!words.empty() && words.back() == 0) words.pop_back();
  return words;
}

absl::StatusOr<ExactSquareSum> ExactSquareSum::FromWords(absl::Span<const uint64_t> words,
                                                         bool is_finite) {
  if (words.size() > kWords) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sum of squares of ", words.size(), " words; must be at most ", kWords));
  }
  ExactSquareSum sum;
  std::copy(words.begin(), words.end(), sum.words_.begin());
  sum.is_finite_ = is_finite;
  return sum;
}

bool SameNorm(double a, double b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

float ClipFactor(double norm, double clip_norm) {
  if (!std::isfinite(norm)) return std::numeric_limits<float>::quiet_NaN();
  return norm <= clip_norm ? 1 : static_cast<float>(clip_norm / norm);
}

}  // namespace millrace
