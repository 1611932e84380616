// Values far from where naive formulas work; ordinary ones are in reference_test.
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/losses/binary_crossentropy.h"
#include "worker/device/cpu/losses/sparse_categorical_crossentropy.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SparseCategoricalCrossentropyTest, KnownValues) {
  float gradient[3];
  const LossSums sums = SparseCategoricalCrossentropyLoss().Compute({0, 0, 0}, {1}, gradient);
  EXPECT_DOUBLE_EQ(sums.loss, std::log(3.0));
  EXPECT_THAT(gradient, ElementsAre(FloatEq(1.0f / 3), FloatEq(-2.0f / 3), FloatEq(1.0f / 3)));
}

TEST(SparseCategoricalCrossentropyTest, GradientIsOfTheMean) {
  float gradient[4];
  SparseCategoricalCrossentropyLoss().Compute({0, 0, 0, 0}, {1, 0}, gradient);
  EXPECT_THAT(gradient, ElementsAre(0.25f, -0.25f, -0.25f, 0.25f));
}

TEST(SparseCategoricalCrossentropyTest, HugeLogitsNeitherOverflowNorVanish) {
  float gradient[4];
  const LossSums sums =
      SparseCategoricalCrossentropyLoss().Compute({3e38f, -3e38f, 1e4f, 0}, {0, 1}, gradient);
  EXPECT_DOUBLE_EQ(sums.loss, 1e4);
  EXPECT_THAT(gradient, ElementsAre(0, 0, 0.5f, -0.5f));
}

TEST(SparseCategoricalCrossentropyTest, RightIsTheFirstLargest) {
  const SparseCategoricalCrossentropyLoss loss;
  EXPECT_EQ(loss.Compute({1, 5, 2, 4, 4, 0}, {1, 0}, nullptr).right, 2);
  EXPECT_EQ(loss.Compute({1, 5, 2, 4, 4, 0}, {0, 1}, nullptr).right, 0);
}

TEST(SparseCategoricalCrossentropyTest, WhatIsNotFiniteShows) {
  const SparseCategoricalCrossentropyLoss loss;
  EXPECT_TRUE(std::isnan(loss.Compute({0, kNan, 0}, {0}, nullptr).loss));
  EXPECT_TRUE(std::isnan(loss.Compute({kNan, 0, 0}, {1}, nullptr).loss));
  EXPECT_FALSE(std::isfinite(loss.Compute({kInfinity, 0, 0}, {1}, nullptr).loss));
  EXPECT_FALSE(std::isfinite(loss.Compute({-kInfinity, 0, 0}, {0}, nullptr).loss));
}

TEST(BinaryCrossentropyTest, KnownValues) {
  float gradient[2];
  const LossSums sums = BinaryCrossentropyLoss().Compute({0, 0}, {0, 1}, gradient);
  EXPECT_DOUBLE_EQ(sums.loss, 2 * std::log(2.0));
  EXPECT_THAT(gradient, ElementsAre(0.25f, -0.25f));
}

TEST(BinaryCrossentropyTest, HugeLogitsNeitherOverflowNorVanish) {
  float gradient[4];
  const LossSums sums =
      BinaryCrossentropyLoss().Compute({1e4f, 1e4f, -1e4f, -1e4f}, {0, 1, 0, 1}, gradient);
  EXPECT_DOUBLE_EQ(sums.loss, 2e4);
  EXPECT_THAT(gradient, ElementsAre(0.25f, 0, 0, -0.25f));
}

TEST(BinaryCrossentropyTest, SmallLossesKeepTheirDigits) {
  EXPECT_DOUBLE_EQ(BinaryCrossentropyLoss().Compute({40}, {1}, nullptr).loss, std::exp(-40.0));
}

TEST(BinaryCrossentropyTest, RightIsAboveZeroExactlyForOne) {
  EXPECT_EQ(BinaryCrossentropyLoss().Compute({1, -1, 0, 0}, {1, 0, 0, 1}, nullptr).right, 3);
}

TEST(BinaryCrossentropyTest, WhatIsNotFiniteShows) {
  EXPECT_TRUE(std::isnan(BinaryCrossentropyLoss().Compute({kNan}, {0}, nullptr).loss));
  EXPECT_FALSE(std::isfinite(BinaryCrossentropyLoss().Compute({kInfinity}, {0}, nullptr).loss));
}

}  // namespace
}  // namespace millrace::worker
