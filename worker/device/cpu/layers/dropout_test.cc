#include "worker/device/cpu/layers/dropout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

constexpr size_t kElements = 4000;
constexpr size_t kRows = 25;

LayerPlan Plan(double rate) {
  LayerPlan plan;
  plan.spec.mutable_dropout()->set_rate(rate);
  plan.output = {kElements};
  plan.inputs = {plan.output};
  return plan;
}

CpuPass TrainingPass(uint64_t seed, size_t batch = kRows) {
  CpuPass pass;
  pass.batch = batch;
  pass.training = true;
  pass.seed = seed;
  return pass;
}

std::vector<float> Forward(double rate, size_t layer, const CpuPass& pass) {
  DropoutLayer dropout(Plan(rate), layer);
  const std::vector<float> ones(pass.batch * kElements, 1.0f);
  std::vector<float> y(ones.size());
  dropout.Forward(pass, ones.data(), y.data());
  return y;
}

double ShareOfZeros(const std::vector<float>& values) {
  return static_cast<double>(std::count(values.begin(), values.end(), 0.0f)) /
         static_cast<double>(values.size());
}

// Of the positions, where both are 0.
double ShareOfCommonZeros(const std::vector<float>& a, const std::vector<float>& b,
                          size_t shift = 0) {
  double common = 0;
  for (size_t i = 0; i + shift < a.size(); ++i) common += a[i] == 0 && b[i + shift] == 0 ? 1 : 0;
  return common / static_cast<double>(a.size() - shift);
}

TEST(DropoutTest, DropsTheGivenShareAndScalesTheRest) {
  // 100,000 elements: the share's standard deviation is at most 0.0016.
  for (const double rate : {0.1, 0.25, 0.5, 0.9}) {
    const std::vector<float> y = Forward(rate, 0, TrainingPass(1));
    EXPECT_NEAR(ShareOfZeros(y), rate, 0.008);
    const float kept = static_cast<float>(1 / (1 - rate));
    for (const float value : y) EXPECT_TRUE(value == 0 || value == kept) << value;
  }
}

TEST(DropoutTest, RateZeroKeepsEverything) {
  EXPECT_EQ(ShareOfZeros(Forward(0, 0, TrainingPass(1))), 0);
}

TEST(DropoutTest, EvaluationIsTheIdentity) {
  CpuPass pass = TrainingPass(1);
  pass.training = false;
  EXPECT_EQ(Forward(0.5, 0, pass), std::vector<float>(kRows * kElements, 1.0f));
}

TEST(DropoutTest, SameSeedSameMask) {
  EXPECT_EQ(Forward(0.5, 3, TrainingPass(42)), Forward(0.5, 3, TrainingPass(42)));
}

TEST(DropoutTest, MasksOfSeedsAndLayersAreIndependent) {
  const std::vector<float> mask = Forward(0.5, 3, TrainingPass(42));
  EXPECT_NEAR(ShareOfCommonZeros(mask, Forward(0.5, 3, TrainingPass(43))), 0.25, 0.007);
  EXPECT_NEAR(ShareOfCommonZeros(mask, Forward(0.5, 4, TrainingPass(42))), 0.25, 0.007);
  EXPECT_NEAR(ShareOfCommonZeros(mask, Forward(0.5, 4, TrainingPass(41))), 0.25, 0.007);
}

TEST(DropoutTest, NeighboursAndExamplesAreIndependent) {
  const std::vector<float> mask = Forward(0.5, 3, TrainingPass(42));
  for (const size_t shift : {size_t{1}, size_t{2}, size_t{16}, kElements, kElements + 1}) {
    EXPECT_NEAR(ShareOfCommonZeros(mask, mask, shift), 0.25, 0.007) << shift;
  }
}

TEST(DropoutTest, AnExamplesMaskDoesNotDependOnTheBatch) {
  const std::vector<float> large = Forward(0.5, 3, TrainingPass(42));
  const std::vector<float> small = Forward(0.5, 3, TrainingPass(42, /*batch=*/3));
  EXPECT_TRUE(std::equal(small.begin(), small.end(), large.begin()));
}

TEST(DropoutTest, BackwardHasTheMaskOfForward) {
  const CpuPass pass = TrainingPass(5);
  std::vector<float> dy(kRows * kElements, 1.0f);
  std::vector<float> dx(dy.size());
  DropoutLayer(Plan(0.3), 2).Backward(pass, nullptr, nullptr, dy.data(), dx.data());
  EXPECT_EQ(dx, Forward(0.3, 2, pass));
}

// The mask is part of what makes runs repeatable: a change shows here first.
TEST(DropoutTest, MaskStaysTheSameForever) {
  const std::vector<float> y = Forward(0.5, 1, TrainingPass(7, /*batch=*/1));
  std::string kept;
  for (size_t i = 0; i < 32; ++i) kept += y[i] == 0 ? '0' : '1';
  EXPECT_EQ(kept, "11011101101100010111111111010110");
}

}  // namespace
}  // namespace millrace::worker
