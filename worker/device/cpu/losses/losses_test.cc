// Values far from where naive formulas work; ordinary ones are in losses_reference_test.
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/losses/binary_crossentropy.h"
#include "worker/device/cpu/losses/categorical_crossentropy.h"
#include "worker/device/cpu/losses/regression.h"
#include "worker/device/cpu/losses/sparse_categorical_crossentropy.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double Compute(const CpuLoss& loss, const std::vector<float>& logits,
               const std::vector<int64_t>& labels, float* gradient) {
  const Tensor label = IdTensor(labels);
  LossBatch batch;
  batch.output = {logits, &label, labels.size()};
  return loss.Compute(batch, gradient);
}

double Compute(const CpuLoss& loss, const std::vector<float>& values,
               const std::vector<float>& labels, size_t examples, float* gradient) {
  const Tensor label = FloatTensor(labels);
  LossBatch batch;
  batch.output = {values, &label, examples};
  return loss.Compute(batch, gradient);
}

TEST(SparseCategoricalCrossentropyTest, KnownValues) {
  float gradient[3];
  const double sum = Compute(SparseCategoricalCrossentropyLoss(), {0, 0, 0}, {1}, gradient);
  EXPECT_DOUBLE_EQ(sum, std::log(3.0));
  EXPECT_THAT(gradient, ElementsAre(FloatEq(1.0f / 3), FloatEq(-2.0f / 3), FloatEq(1.0f / 3)));
}

TEST(SparseCategoricalCrossentropyTest, GradientIsOfTheMean) {
  float gradient[4];
  Compute(SparseCategoricalCrossentropyLoss(), {0, 0, 0, 0}, {1, 0}, gradient);
  EXPECT_THAT(gradient, ElementsAre(0.25f, -0.25f, -0.25f, 0.25f));
}

TEST(SparseCategoricalCrossentropyTest, HugeLogitsNeitherOverflowNorVanish) {
  float gradient[4];
  const double sum =
      Compute(SparseCategoricalCrossentropyLoss(), {3e38f, -3e38f, 1e4f, 0}, {0, 1}, gradient);
  EXPECT_DOUBLE_EQ(sum, 1e4);
  EXPECT_THAT(gradient, ElementsAre(0, 0, 0.5f, -0.5f));
}

TEST(SparseCategoricalCrossentropyTest, WhatIsNotFiniteShows) {
  const SparseCategoricalCrossentropyLoss loss;
  EXPECT_TRUE(std::isnan(Compute(loss, {0, kNan, 0}, {0}, nullptr)));
  EXPECT_TRUE(std::isnan(Compute(loss, {kNan, 0, 0}, {1}, nullptr)));
  EXPECT_FALSE(std::isfinite(Compute(loss, {kInfinity, 0, 0}, {1}, nullptr)));
  EXPECT_FALSE(std::isfinite(Compute(loss, {-kInfinity, 0, 0}, {0}, nullptr)));
}

TEST(BinaryCrossentropyTest, KnownValues) {
  float gradient[2];
  const double sum = Compute(BinaryCrossentropyLoss(), {0, 0}, {0, 1}, gradient);
  EXPECT_DOUBLE_EQ(sum, 2 * std::log(2.0));
  EXPECT_THAT(gradient, ElementsAre(0.25f, -0.25f));
}

TEST(BinaryCrossentropyTest, HugeLogitsNeitherOverflowNorVanish) {
  float gradient[4];
  const double sum =
      Compute(BinaryCrossentropyLoss(), {1e4f, 1e4f, -1e4f, -1e4f}, {0, 1, 0, 1}, gradient);
  EXPECT_DOUBLE_EQ(sum, 2e4);
  EXPECT_THAT(gradient, ElementsAre(0.25f, 0, 0, -0.25f));
}

TEST(BinaryCrossentropyTest, SmallLossesKeepTheirDigits) {
  EXPECT_DOUBLE_EQ(Compute(BinaryCrossentropyLoss(), {40}, {1}, nullptr), std::exp(-40.0));
}

TEST(BinaryCrossentropyTest, WhatIsNotFiniteShows) {
  EXPECT_TRUE(std::isnan(Compute(BinaryCrossentropyLoss(), {kNan}, {0}, nullptr)));
  EXPECT_FALSE(std::isfinite(Compute(BinaryCrossentropyLoss(), {kInfinity}, {0}, nullptr)));
}

TEST(CategoricalCrossentropyTest, HugeLogitsNeitherOverflowNorVanish) {
  float gradient[4];
  const double sum = Compute(CategoricalCrossentropyLoss(), {3e38f, -3e38f, 1e4f, 0}, {1, 0, 0, 1},
                             /*examples=*/2, gradient);
  EXPECT_DOUBLE_EQ(sum, 1e4);
  EXPECT_THAT(gradient, ElementsAre(0, 0, 0.5f, -0.5f));
}

TEST(CategoricalCrossentropyTest, WhatIsNotFiniteShows) {
  const CategoricalCrossentropyLoss loss;
  EXPECT_TRUE(std::isnan(Compute(loss, {0, kNan}, {1, 0}, 1, nullptr)));
  EXPECT_TRUE(std::isnan(Compute(loss, {kNan, 0}, {0, 1}, 1, nullptr)));
  EXPECT_FALSE(std::isfinite(Compute(loss, {kInfinity, 0}, {0, 1}, 1, nullptr)));
}

TEST(RegressionTest, HugeErrorsDoNotOverflow) {
  float gradient[1];
  EXPECT_DOUBLE_EQ(Compute(MeanSquaredErrorLoss(), {1e30f}, {0}, 1, gradient),
                   static_cast<double>(1e30f) * static_cast<double>(1e30f));
  EXPECT_FLOAT_EQ(gradient[0], 2e30f);
  EXPECT_DOUBLE_EQ(Compute(HuberLoss(2), {-3e38f}, {0}, 1, gradient),
                   2 * static_cast<double>(3e38f) - 2);
  EXPECT_EQ(gradient[0], -2);
}

TEST(RegressionTest, AbsoluteErrorIsFlatAtZero) {
  float gradient[3];
  EXPECT_EQ(Compute(MeanAbsoluteErrorLoss(), {1, 2, 3}, {1, 1, 4}, 3, gradient), 2);
  EXPECT_THAT(gradient, ElementsAre(0, FloatEq(1.0f / 3), FloatEq(-1.0f / 3)));
}

TEST(RegressionTest, WhatIsNotFiniteShows) {
  float gradient[1];
  EXPECT_TRUE(std::isnan(Compute(MeanSquaredErrorLoss(), {kNan}, {0}, 1, gradient)));
  EXPECT_TRUE(std::isnan(Compute(MeanAbsoluteErrorLoss(), {kNan}, {0}, 1, gradient)));
  EXPECT_TRUE(std::isnan(Compute(HuberLoss(1), {kNan}, {0}, 1, gradient)));
  EXPECT_FALSE(std::isfinite(Compute(HuberLoss(1), {kInfinity}, {0}, 1, gradient)));
}

}  // namespace
}  // namespace millrace::worker
