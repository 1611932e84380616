// Activations as layers of their own; within others they are the same kernels.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

// All that are no views.
const char* const kFunctions[] = {"RELU", "SIGMOID",    "SOFTMAX", "TANH", "RELU6",
                                  "ELU",  "LEAKY_RELU", "SILU",    "GELU", "GELU_TANH"};

LayerCase CaseOf(const std::string& function, const Shape& shape, size_t batch) {
  return MakeLayerCase(absl::StrCat("activation { function: ", function, " }"), {shape}, batch);
}

class ActivationKernelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ActivationKernelTest, IsLikeTheCpuOnAnyShape) {
  for (const Shape& shape : std::vector<Shape>{{1}, {7}, {3, 5, 33}, {256}, {2, 257}, {1, 1000}}) {
    for (const size_t batch : {1, 3}) {
      LayerCase c = CaseOf(GetParam(), shape, batch);
      for (float& x : c.x[0]) x *= 8;
      ExpectLikeCpu(c, 2e-6);
    }
  }
}

TEST_P(ActivationKernelTest, TakesMoreThanAGridHas) {
  const bool by_row = std::string(GetParam()) == "SOFTMAX";
  ExpectLikeCpu(CaseOf(GetParam(), by_row ? Shape{500, 5} : Shape{110000}, 10), 2e-6);
}

TEST_P(ActivationKernelTest, ExtremeValuesAreLikeTheCpus) {
  const std::vector<float> values = {0,      -0.0f,   6,    7,     88,    -88,    104,   -104,
                                     1e-30f, -1e-30f, 1e4f, -1e4f, 1e30f, -1e30f, 1e38f, -1e38f};
  LayerCase c = CaseOf(GetParam(), {values.size()}, 1);
  c.x[0] = values;
  ExpectLikeCpu(c, 2e-6);
}

TEST_P(ActivationKernelTest, NanStaysNan) {
  LayerCase c = CaseOf(GetParam(), {1}, 3);
  c.x[0] = {1, kNan, 2};
  const LayerResult result = RunOnGpu(c);
  EXPECT_TRUE(std::isnan(result.y[1]));
  EXPECT_TRUE(std::isfinite(result.y[0]) && std::isfinite(result.y[2]));
}

TEST_P(ActivationKernelTest, GradientsThatNobodyAsksForAreLeftOut) {
  LayerCase c = CaseOf(GetParam(), {5}, 2);
  c.asked = {false};
  EXPECT_TRUE(RunOnGpu(c).dx[0].empty());
}

INSTANTIATE_TEST_SUITE_P(Functions, ActivationKernelTest, ::testing::ValuesIn(kFunctions),
                         [](const auto& instance) { return instance.param; });

// oneDNN's SIGMOID and SOFTMAX have values of their own there.
TEST(ActivationKernelValuesTest, WhatIsNotFiniteIsLikeTheCpus) {
  for (const char* function : {"RELU", "TANH", "RELU6", "ELU", "LEAKY_RELU", "SILU", "GELU"}) {
    LayerCase c = CaseOf(function, {6}, 1);
    c.x[0] = {kInfinity, -kInfinity, kNan, 1, 2, 3};
    c.dy = {1, 1, 1, kInfinity, -kInfinity, kNan};
    ExpectLikeCpu(c, 2e-6);
  }
}

TEST(ActivationKernelValuesTest, SigmoidReachesItsEnds) {
  LayerCase c = CaseOf("SIGMOID", {4}, 1);
  c.x[0] = {kInfinity, -kInfinity, 1e30f, -1e30f};
  EXPECT_EQ(RunOnGpu(c).y, std::vector<float>({1, 0, 1, 0}));
}

TEST(ActivationKernelValuesTest, SoftmaxOfHugeValuesIsOfTheirDifferences) {
  LayerCase c = CaseOf("SOFTMAX", {2}, 3);
  c.x[0] = {3e38f, -3e38f, 1e6f, 1e6f, -kInfinity, 5};
  EXPECT_EQ(RunOnGpu(c).y, std::vector<float>({1, 0, 0.5f, 0.5f, 0, 1}));
}

TEST(ActivationKernelValuesTest, SoftmaxOfARowWithNanIsNan) {
  for (const size_t width : {3, 300}) {
    LayerCase c = CaseOf("SOFTMAX", {width}, 2);
    c.x[0][width - 1] = kNan;
    const LayerResult result = RunOnGpu(c);
    for (size_t i = 0; i < width; ++i) {
      EXPECT_TRUE(std::isnan(result.y[i])) << i;
      EXPECT_TRUE(std::isfinite(result.y[width + i])) << i;
    }
  }
}

TEST(ActivationKernelValuesTest, LeakyReluHasItsSlope) {
  LayerCase c = MakeLayerCase("activation { function: LEAKY_RELU negative_slope: 0.5 }", {{3}}, 1);
  c.x[0] = {-4, 0, 4};
  c.dy = {1, 1, 1};
  const LayerResult result = RunOnGpu(c);
  EXPECT_EQ(result.y, std::vector<float>({-2, 0, 4}));
  EXPECT_EQ(result.dx[0], std::vector<float>({0.5f, 0.5f, 1}));
}

}  // namespace
}  // namespace millrace::worker
