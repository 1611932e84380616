#include "common/exact_square_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/seed/test_seed.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

ExactSquareSum SumOf(absl::Span<const float> values) {
  ExactSquareSum sum;
  sum.Add(values);
  return sum;
}

double Squares(absl::Span<const float> values) { return SumOf(values).ToDouble(); }

TEST(ExactSquareSumTest, SmallSumsAreExact) {
  EXPECT_EQ(Squares({}), 0);
  EXPECT_EQ(Squares({0.0f, -0.0f}), 0);
  EXPECT_EQ(Squares({3, -4}), 25);
  EXPECT_EQ(Squares({0.5f, 0.25f}), 0.3125);
  EXPECT_EQ(Squares(std::vector<float>(1 << 20, 16777215)), 16777215.0 * 16777215.0 * (1 << 20));
}

TEST(ExactSquareSumTest, SmallestAndLargestFloatsCount) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  const float least_normal = std::numeric_limits<float>::min();
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(Squares({smallest}), std::ldexp(1, -298));
  EXPECT_EQ(Squares({least_normal}), std::ldexp(1, -252));
  EXPECT_EQ(Squares({largest}), double{largest} * double{largest});
  EXPECT_EQ(Squares({largest, smallest}), double{largest} * double{largest});
}

// Half of the last place of 2^60 is 2^7; the sums lie on it, and just beside it.
TEST(ExactSquareSumTest, SumIsRoundedOnceToTheNearestDouble) {
  const double large = std::ldexp(1, 60);
  const double step = std::ldexp(1, 8);
  const float root = std::ldexp(1.0f, 30);
  const std::vector<float> half(2, 8);  // 2^7 in all.
  std::vector<float> values = {root};
  values.insert(values.end(), half.begin(), half.end());
  EXPECT_EQ(Squares(values), large) << "to even";
  values.push_back(1e-20f);
  EXPECT_EQ(Squares(values), large + step);
  values = {root, 16};
  values.insert(values.end(), half.begin(), half.end());
  EXPECT_EQ(Squares(values), large + 2 * step) << "to even";
  EXPECT_EQ(Squares({root, 8}), large);
}

TEST(ExactSquareSumTest, NeitherOrderNorDivisionShows) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-120, 120);
  std::vector<float> values(200'000);
  for (float& value : values) value = std::ldexp(normal(random), exponent(random));
  const std::vector<uint64_t> expected = SumOf(values).ToWords();
  for (const size_t parts : {2, 3, 1000}) {
    std::shuffle(values.begin(), values.end(), random);
    ExactSquareSum sum;
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = values.size() * part / parts;
      const size_t end = values.size() * (part + 1) / parts;
      const ExactSquareSum some = SumOf(absl::MakeConstSpan(values).subspan(begin, end - begin));
      sum.Add(*ExactSquareSum::FromWords(some.ToWords(), some.is_finite()));
    }
    EXPECT_EQ(sum.ToWords(), expected) << parts << " parts";
  }
}

TEST(ExactSquareSumTest, IsCloseToASumOfLongDoubles) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(100'000);
  long double expected = 0;
  for (float& value : values) {
    value = normal(random);
    expected += static_cast<long double>(value) * value;
  }
  EXPECT_NEAR(Squares(values), static_cast<double>(expected), 1e-9);
}

TEST(ExactSquareSumTest, WhatIsNotFiniteMakesTheSumInfinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    ExactSquareSum sum = SumOf({1, 2});
    EXPECT_TRUE(sum.is_finite());
    sum.Add(SumOf({1, bad}));
    EXPECT_FALSE(sum.is_finite());
    EXPECT_EQ(sum.ToDouble(), std::numeric_limits<double>::infinity());
  }
}

TEST(ExactSquareSumTest, TooManyWordsAreRefused) {
  const auto sum = ExactSquareSum::FromWords(std::vector<uint64_t>(11, 1), true);
  EXPECT_EQ(sum.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(sum.status().message()), HasSubstr("11 words; must be at most 10"));
}

TEST(ClipFactorTest, ShortGradientsStayAndLongOnesAreShortened) {
  EXPECT_EQ(ClipFactor(0, 2), 1);
  EXPECT_EQ(ClipFactor(2, 2), 1);
  EXPECT_EQ(ClipFactor(4, 2), 0.5f);
  EXPECT_TRUE(std::isnan(ClipFactor(std::numeric_limits<double>::infinity(), 2)));
  EXPECT_TRUE(std::isnan(ClipFactor(std::nan(""), 2)));
}

}  // namespace
}  // namespace millrace
