// Rounding works on the bits of floats, as integers, but for float16's denormal numbers: added to
// 0.5, whose unit in the last place is float16's smallest number, they are rounded by the
// addition, which IEEE 754 defines. Neither operand nor result of it is a denormal float that
// counts: so it gives the same bits where a processor takes those for 0.
#include "common/wire/encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/kernel_clones.h"
#include "glog/logging.h"

namespace millrace {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;

// Values are rounded so many at a time, into memory of their own: they may lie where they go.
constexpr size_t kChunk = 1024;

inline uint32_t LoadBits(const char* bytes, size_t i) {
  uint32_t bits;
  std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
  return bits;
}

inline uint32_t LoadHalf(const char* bytes, size_t i) {
  uint16_t bits;
  std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
  return bits;
}

// Without ?:, since compilers would then move what they choose from behind a branch, and not
// vectorise the loop around it.
inline uint32_t Choose(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = -static_cast<uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

inline uint32_t RoundToFloat16(uint32_t bits) {
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr uint32_t kHalf = 0x3f000000;            // 0.5
  constexpr uint32_t kBias = uint32_t{127 - 15} << 23;
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t denormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kHalf)) -
      kHalf;
  const uint32_t normal = (magnitude - kBias + 0xfff + (magnitude >> 13 & 1)) >> 13;
  const uint32_t number = Choose(magnitude < kSmallestNormal, denormal, normal);
  const uint32_t bounded = Choose(magnitude >= 0x47800000, 0x7c00, number);  // 65536 and above.
  const uint32_t rounded = Choose(magnitude > kInfinity, 0x7e00, bounded);
  return (bits >> 16 & 0x8000) | rounded;
}

inline uint32_t RoundToBfloat16(uint32_t bits) {
  const uint32_t number = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40;
  return (bits & ~kSign) > kInfinity ? quiet : number;
}

// Each returns whether all results are finite. Without a branch, so that they are vectorised.
MILLRACE_KERNEL bool ChunkToFloat16(const char* from, size_t count, uint16_t* __restrict to) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t rounded = RoundToFloat16(LoadBits(from, i));
    found |= (rounded & 0x7c00) == 0x7c00;
    to[i] = static_cast<uint16_t>(rounded);
  }
  return found == 0;
}

MILLRACE_KERNEL bool ChunkToBfloat16(const char* from, size_t count, uint16_t* __restrict to) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t rounded = RoundToBfloat16(LoadBits(from, i));
    found |= (rounded & 0x7f80) == 0x7f80;
    to[i] = static_cast<uint16_t>(rounded);
  }
  return found == 0;
}

MILLRACE_KERNEL void WidenFloat16(const char* from, size_t count, float* __restrict to) {
  constexpr uint32_t kExponent = 0x7c00 << 13;
  constexpr uint32_t kBias = uint32_t{127 - 15} << 23;
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  for (size_t i = 0; i < count; ++i) {
    const uint32_t half = LoadHalf(from, i);
    const uint32_t shifted = (half & 0x7fff) << 13;
    const uint32_t exponent = shifted & kExponent;
    // What is added to 2^-14 is a whole number of its units, and the difference is exact.
    const uint32_t denormal = std::bit_cast<uint32_t>(
        std::bit_cast<float>(shifted + kSmallestNormal) - std::bit_cast<float>(kSmallestNormal));
    const uint32_t normal = shifted + (exponent == kExponent ? 2 * kBias : kBias);
    const uint32_t magnitude = Choose(exponent == 0, denormal, normal);
    to[i] = std::bit_cast<float>((half & 0x8000) << 16 | magnitude);
  }
}

MILLRACE_KERNEL void WidenBfloat16(const char* from, size_t count, float* __restrict to) {
  for (size_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(LoadHalf(from, i) << 16);
}

// Whether a value that becomes infinite or NaN is to be told of.
enum class Wanted { kFinite, kFitting };

// The first of a chunk that is; count: none is.
template <typename Round>
size_t FirstLost(const char* from, size_t count, uint32_t exponent, Wanted wanted, Round round) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = LoadBits(from, i);
    if ((round(bits) & exponent) != exponent) continue;
    if (wanted == Wanted::kFinite || (bits & ~kSign) < kInfinity) return i;
  }
  return count;
}

// Rounds a chunk. Returns as FirstLost.
size_t NarrowChunk(const char* from, size_t count, Encoding::Kind encoding, Wanted wanted,
                   uint16_t* to) {
  if (encoding == Encoding::FLOAT16) {
    if (ChunkToFloat16(from, count, to)) return count;
    return FirstLost(from, count, 0x7c00, wanted, RoundToFloat16);
  }
  if (ChunkToBfloat16(from, count, to)) return count;
  return FirstLost(from, count, 0x7f80, wanted, RoundToBfloat16);
}

size_t NarrowAll(absl::Span<const float> values, Encoding::Kind encoding, Wanted wanted, char* to) {
  const char* const from = reinterpret_cast<const char*>(values.data());
  uint16_t rounded[kChunk];
  for (size_t begin = 0; begin < values.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, values.size() - begin);
    const size_t lost = NarrowChunk(from + begin * sizeof(float), count, encoding, wanted, rounded);
    if (lost < count) return begin + lost;
    std::memcpy(to + begin * sizeof(uint16_t), rounded, count * sizeof(uint16_t));
  }
  return values.size();
}

}  // namespace

size_t WidthOf(Encoding::Kind encoding) {
  return encoding == Encoding::FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

size_t NarrowFinite(absl::Span<const float> values, Encoding::Kind encoding, void* to) {
  CHECK_NE(encoding, Encoding::FLOAT32);
  return NarrowAll(values, encoding, Wanted::kFinite, static_cast<char*>(to));
}

size_t Narrow(absl::Span<const float> values, Encoding::Kind encoding, void* to) {
  CHECK_NE(encoding, Encoding::FLOAT32);
  return NarrowAll(values, encoding, Wanted::kFitting, static_cast<char*>(to));
}

void Widen(Encoding::Kind encoding, const char* bytes, absl::Span<float> to) {
  if (to.empty()) return;
  switch (encoding) {
    case Encoding::FLOAT16:
      return WidenFloat16(bytes, to.size(), to.data());
    case Encoding::BFLOAT16:
      return WidenBfloat16(bytes, to.size(), to.data());
    default:
      std::memcpy(to.data(), bytes, to.size() * sizeof(float));
  }
}

std::string DoesNotFit(float value, Encoding::Kind encoding) {
  const bool is_float16 = encoding == Encoding::FLOAT16;
  return absl::StrCat(value, ", which ", Encoding::Kind_Name(encoding),
                      " cannot hold: its numbers go to ", is_float16 ? "65504" : "3.3895e+38",
                      "; set precision.wire to ", is_float16 ? "BFLOAT16" : "FLOAT32");
}

}  // namespace millrace
