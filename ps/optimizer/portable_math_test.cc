// Against the C library's, and a few exact bits, which must be the same wherever this runs.
#include "ps/optimizer/portable_math.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

TEST(PortableMathTest, AgreesWithTheLibrary) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 100'000; ++i) {
    const double x = std::exp(100 * (uniform(random) - 0.5));
    ASSERT_NEAR(Log(x), std::log(x), 1e-15 * std::abs(std::log(x))) << x;
    const double exponent = 3 * (uniform(random) - 0.5);
    ASSERT_NEAR(Pow(x, exponent), std::pow(x, exponent), 1e-13 * std::pow(x, exponent))
        << x << " to " << exponent;
    const double part = uniform(random);
    ASSERT_NEAR(CosPi(part), std::cos(M_PI * part), 1e-15) << part;
  }
}

TEST(PortableMathTest, NearOneLogarithmsKeepTheirDigits) {
  for (double small = 1e-15; small < 0.01; small *= 1.7) {
    const double x = 1 + small;
    EXPECT_NEAR(Log(x), std::log1p(x - 1), 1e-15 * small);
  }
}

TEST(PortableMathTest, SpecialValuesAreExact) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(CosPi(0), 1);
  EXPECT_EQ(CosPi(0.5), 0);
  EXPECT_EQ(CosPi(1), -1);
  EXPECT_EQ(Pow(7, 0), 1);
  EXPECT_EQ(Pow(0, 0), 1);
  EXPECT_EQ(Pow(0, 0.3), 0);
  EXPECT_EQ(Pow(kInfinite, 0.3), kInfinite);
  EXPECT_EQ(Pow(0.5, 1e6), 0);
  EXPECT_EQ(Pow(2, 1e6), kInfinite);
  EXPECT_TRUE(std::isnan(Pow(std::nan(""), 0.3)));
}

// A processor with fused operations must not use them.
TEST(PortableMathTest, BitsAreTheSameEverywhere) {
  EXPECT_EQ(Power(0.999, 12345), 0x1.22391fb9458bp-18);
  EXPECT_EQ(Log(3), 0x1.193ea7aad030bp+0);
  EXPECT_EQ(Pow(0.96, 123.4), 0x1.a95a83eac8abdp-8);
  EXPECT_EQ(CosPi(0.3), 0x1.2cf2304755a5ep-1);
}

}  // namespace
}  // namespace millrace::ps
