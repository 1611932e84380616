#include "common/wire/encoding.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr Encoding::Kind kNarrow[] = {Encoding::FLOAT16, Encoding::BFLOAT16};

std::vector<uint16_t> Rounded(const std::vector<float>& values, Encoding::Kind encoding) {
  std::vector<uint16_t> rounded(values.size());
  EXPECT_EQ(Narrow(values, encoding, rounded.data()), values.size());
  return rounded;
}

std::vector<float> Widened(const std::vector<uint16_t>& rounded, Encoding::Kind encoding) {
  std::vector<float> values(rounded.size());
  Widen(encoding, reinterpret_cast<const char*>(rounded.data()), absl::MakeSpan(values));
  return values;
}

// All that two bytes can be.
std::vector<uint16_t> Patterns() {
  std::vector<uint16_t> patterns(1 << 16);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

// IEEE 754's definition of a number with `exponent_bits` bits of exponent.
double Meaning(uint16_t pattern, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int exponent = pattern >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = pattern & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (pattern & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  const double whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - mantissa_bits);
}

TEST(EncodingTest, RoundsAsOtherLibrariesDo) {
  std::ifstream file("testing/reference/encodings.txt");
  CHECK(file.is_open()) << "testing/reference/encodings.txt is not among the test's data";
  std::string bits;
  std::string expected[2];
  size_t lines = 0;
  while (file >> bits >> expected[0] >> expected[1]) {
    ++lines;
    const auto pattern = static_cast<uint32_t>(std::stoul(bits, nullptr, 16));
    const std::vector<float> value = {std::bit_cast<float>(pattern)};
    for (size_t i = 0; i < 2; ++i) {
      const auto rounded = static_cast<uint16_t>(std::stoul(expected[i], nullptr, 16));
      const bool becomes_infinite =
          std::isinf(Widened({rounded}, kNarrow[i])[0]) && std::isfinite(value[0]);
      uint16_t ours = 0;
      EXPECT_EQ(Narrow(value, kNarrow[i], &ours), becomes_infinite ? 0u : 1u) << bits;
      if (!becomes_infinite) {
        EXPECT_EQ(ours, rounded) << bits;
      }
    }
  }
  EXPECT_GT(lines, 500u);
}

TEST(EncodingTest, EveryPatternMeansWhatTheStandardSays) {
  const std::vector<uint16_t> patterns = Patterns();
  for (const Encoding::Kind encoding : kNarrow) {
    const std::vector<float> values = Widened(patterns, encoding);
    const int exponent_bits = encoding == Encoding::FLOAT16 ? 5 : 8;
    for (const uint16_t pattern : patterns) {
      const double meaning = Meaning(pattern, exponent_bits);
      if (std::isnan(meaning)) {
        ASSERT_TRUE(std::isnan(values[pattern])) << pattern;
      } else {
        ASSERT_EQ(values[pattern], meaning) << pattern;
        ASSERT_EQ(std::signbit(values[pattern]), std::signbit(meaning)) << pattern;
      }
    }
  }
}

TEST(EncodingTest, WhatAnEncodingHasComesBackAsItWas) {
  const std::vector<uint16_t> patterns = Patterns();
  for (const Encoding::Kind encoding : kNarrow) {
    const std::vector<float> values = Widened(patterns, encoding);
    const std::vector<uint16_t> rounded = Rounded(values, encoding);
    for (const uint16_t pattern : patterns) {
      if (std::isnan(values[pattern])) {
        ASSERT_TRUE(std::isnan(Widened({rounded[pattern]}, encoding)[0])) << pattern;
      } else {
        ASSERT_EQ(rounded[pattern], pattern);
      }
    }
  }
}

TEST(EncodingTest, WhatLiesBetweenTwoNumbersGoesToTheNearerOneAndFromTheMiddleToTheEvenOne) {
  for (const Encoding::Kind encoding : kNarrow) {
    const uint16_t largest = encoding == Encoding::FLOAT16 ? 0x7bff : 0x7f7f;
    std::vector<float> values;
    std::vector<uint16_t> expected;
    for (uint16_t pattern = 0; pattern < largest; ++pattern) {
      const std::vector<float> ends =
          Widened({pattern, static_cast<uint16_t>(pattern + 1)}, encoding);
      const float middle = ends[0] + (ends[1] - ends[0]) / 2;
      const uint16_t even = pattern + pattern % 2;
      values.insert(values.end(), {std::nextafter(middle, 0.0f), middle,
                                   std::nextafter(middle, ends[1]), -middle});
      expected.insert(expected.end(), {pattern, even, static_cast<uint16_t>(pattern + 1),
                                       static_cast<uint16_t>(even | 0x8000)});
    }
    EXPECT_EQ(Rounded(values, encoding), expected) << Encoding::Kind_Name(encoding);
  }
}

TEST(EncodingTest, FirstValueThatDoesNotFitIsFoundWhereverItStands) {
  for (const Encoding::Kind encoding : kNarrow) {
    const float smallest = encoding == Encoding::FLOAT16 ? 65520 : std::bit_cast<float>(0x7f7f8000);
    for (const size_t size : {1, 7, 1024, 1025, 5000}) {
      for (const size_t place : {size_t{0}, size / 2, size - 1}) {
        std::vector<float> values(size, std::nextafter(smallest, 0.0f));
        std::vector<uint16_t> to(size);
        EXPECT_EQ(NarrowFinite(values, encoding, to.data()), size);
        values[place] = -smallest;
        values[size - 1] = smallest;
        EXPECT_EQ(NarrowFinite(values, encoding, to.data()), place) << size;
        EXPECT_EQ(Narrow(values, encoding, to.data()), place) << size;
      }
    }
  }
}

TEST(EncodingTest, InfinitiesAndNanStayWhatTheyAreOrAreFound) {
  for (const Encoding::Kind encoding : kNarrow) {
    const std::vector<float> values = {1, INFINITY, -INFINITY, NAN,
                                       std::numeric_limits<float>::signaling_NaN()};
    const std::vector<float> back = Widened(Rounded(values, encoding), encoding);
    EXPECT_EQ(back[1], INFINITY);
    EXPECT_EQ(back[2], -INFINITY);
    EXPECT_TRUE(std::isnan(back[3]));
    EXPECT_TRUE(std::isnan(back[4]));
    std::vector<uint16_t> to(values.size());
    EXPECT_EQ(NarrowFinite(values, encoding, to.data()), 1u);
  }
}

// A NaN whose low bits alone are set would round to infinity, and one with all bits set to -0.
TEST(EncodingTest, NanIsNanWhateverItsBits) {
  for (const Encoding::Kind encoding : kNarrow) {
    for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
      const std::vector<float> value = {std::bit_cast<float>(bits)};
      EXPECT_TRUE(std::isnan(Widened(Rounded(value, encoding), encoding)[0])) << bits;
      uint16_t to = 0;
      EXPECT_EQ(NarrowFinite(value, encoding, &to), 0u) << bits;
    }
  }
}

TEST(EncodingTest, ValuesAreRoundedWhereTheyStand) {
  for (const Encoding::Kind encoding : kNarrow) {
    std::vector<float> values(5000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i);
    const std::vector<uint16_t> expected = Rounded(values, encoding);
    values[4000] = INFINITY;
    EXPECT_EQ(NarrowFinite(absl::MakeSpan(values), encoding, values.data()), 4000u);
    EXPECT_EQ(values[4000], INFINITY) << "what is not rounded stays";
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), 3000 * sizeof(uint16_t)), 0);
  }
}

TEST(EncodingTest, ValuesNeedNotBeAligned) {
  for (const Encoding::Kind encoding : kNarrow) {
    const std::vector<uint16_t> rounded = Rounded({1, 2, 3, 4, 5}, encoding);
    std::vector<char> bytes(1 + rounded.size() * sizeof(uint16_t));
    std::memcpy(bytes.data() + 1, rounded.data(), bytes.size() - 1);
    std::vector<float> values(rounded.size());
    Widen(encoding, bytes.data() + 1, absl::MakeSpan(values));
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5}));
  }
}

TEST(EncodingTest, ErrorSaysWhatToDo) {
  EXPECT_EQ(DoesNotFit(70000, Encoding::FLOAT16),
            "70000, which FLOAT16 cannot hold: its numbers go to 65504; set precision.wire to "
            "BFLOAT16");
  EXPECT_EQ(DoesNotFit(3.4e38f, Encoding::BFLOAT16),
            "3.4e+38, which BFLOAT16 cannot hold: its numbers go to 3.3895e+38; set "
            "precision.wire to FLOAT32");
}

}  // namespace
}  // namespace millrace
