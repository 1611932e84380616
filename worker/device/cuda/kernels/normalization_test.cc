// Normalizations on an emulated GPU, against the CPU; against float64: differences_test.cc.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

const Tolerance kNormalizationTolerance(/*of_y=*/1e-5, /*of_gradients=*/5e-5);

const std::vector<std::vector<Shape>>& NormalizedShapes() {
  static const auto* const shapes = new std::vector<std::vector<Shape>>{
      {{1}}, {{3}}, {{70}}, {{5, 1}}, {{7, 33}}, {{4, 5, 3}}, {{9, 8, 32}}, {{3, 2, 300}}};
  return *shapes;
}

TEST(BatchNormalizationKernelTest, ManyShapes) {
  for (const std::vector<Shape>& input : NormalizedShapes()) {
    for (const size_t batch : {2, 17}) {
      ExpectLikeCpu(MakeLayerCase("batch_normalization {}", input, batch), kNormalizationTolerance);
    }
  }
}

// Parts of rows, and lanes that have eight rows at once and some over.
TEST(BatchNormalizationKernelTest, ManyRows) {
  ExpectLikeCpu(MakeLayerCase("batch_normalization {}", {{61, 60, 3}}, 3), kNormalizationTolerance);
  ExpectLikeCpu(MakeLayerCase("batch_normalization {}", {{31, 30, 33}}, 3),
                kNormalizationTolerance);
  ExpectLikeCpu(MakeLayerCase("batch_normalization {}", {{1}}, 5000), kNormalizationTolerance);
}

TEST(BatchNormalizationKernelTest, OneRow) {
  ExpectLikeCpu(MakeLayerCase("batch_normalization {}", {{5}}, 1), kNormalizationTolerance);
}

TEST(BatchNormalizationKernelTest, WithoutScaleOrCenter) {
  for (const char* fields :
       {"no_scale: true", "no_center: true", "no_scale: true no_center: true"}) {
    const std::string spec = absl::StrCat("batch_normalization { ", fields, " }");
    ExpectLikeCpu(MakeLayerCase(spec, {{4, 5, 6}}, 3), kNormalizationTolerance);
    ExpectLikeCpu(MakeLayerCase(spec, {{4, 5, 6}}, 3, /*trainable=*/false),
                  kNormalizationTolerance);
  }
}

TEST(BatchNormalizationKernelTest, MovingStatisticsWhereItIsNotTrained) {
  for (const size_t batch : {1, 5}) {
    LayerCase c = MakeLayerCase("batch_normalization {}", {{4, 5, 6}}, batch);
    c.training = false;
    ExpectLikeCpu(c, kNormalizationTolerance);
    ExpectLikeCpu(MakeLayerCase("batch_normalization {}", {{4, 5, 6}}, batch, /*trainable=*/false),
                  kNormalizationTolerance);
  }
}

TEST(BatchNormalizationKernelTest, NobodyAsksForTheGradientByTheInput) {
  for (const bool trainable : {true, false}) {
    LayerCase c = MakeLayerCase("batch_normalization {}", {{4, 5, 6}}, 3, trainable);
    c.asked = {false};
    ExpectLikeCpu(c, kNormalizationTolerance);
  }
}

TEST(BatchNormalizationKernelTest, ReluWithin) {
  for (const std::vector<Shape>& input : NormalizedShapes()) {
    for (const bool trainable : {true, false}) {
      LayerCase c = MakeLayerCase("batch_normalization {}", input, 17, trainable);
      c.then = RELU;
      ExpectLikeCpu(c, kNormalizationTolerance);
      c.asked = {false};
      ExpectLikeCpu(c, kNormalizationTolerance);
      c.training = false;
      ExpectLikeCpu(c, kNormalizationTolerance);
    }
  }
}

// NaN is not below 0, and has no gradient.
TEST(BatchNormalizationKernelTest, ReluWithinKeepsWhatIsNoNumber) {
  LayerCase c = MakeLayerCase("batch_normalization {}", {{6}}, 5);
  c.then = RELU;
  c.x[0][8] = NAN;
  const LayerResult result = RunOnGpu(c);
  for (size_t i = 0; i < result.y.size(); ++i) EXPECT_EQ(std::isnan(result.y[i]), i % 6 == 2) << i;
  ExpectLikeCpu(c, kNormalizationTolerance);
}

// The mean is thousands of times the deviation, where the mean of squares less the square of the
// mean would be noise. Means of eight rows are rounded to 2^-11; that may be half of a deviation's
// 1e-3 in each, and what it makes of the variance is less by the root of their number.
TEST(BatchNormalizationKernelTest, LargeMeansLeaveTheVarianceExact) {
  constexpr size_t kRows = 3000;
  LayerCase c = MakeLayerCase("batch_normalization { epsilon: 1e-9 }", {{2}}, kRows);
  for (float& value : c.x[0]) value = 4096 + value;
  const LayerResult result = RunOnGpu(c);
  for (size_t channel = 0; channel < 2; ++channel) {
    double mean = 0, squares = 0;
    for (size_t row = 0; row < kRows; ++row) mean += c.x[0][2 * row + channel] / kRows;
    for (size_t row = 0; row < kRows; ++row) {
      squares += std::pow(c.x[0][2 * row + channel] - mean, 2) / kRows;
    }
    EXPECT_NEAR(result.gradients[kMovingMean][channel], mean, 1e-3);
    EXPECT_NEAR(result.gradients[kMovingVariance][channel] / squares, 1, 1e-4);
  }
}

TEST(BatchNormalizationKernelTest, EqualValuesHaveNoVariance) {
  LayerCase c = MakeLayerCase("batch_normalization {}", {{3}}, 100);
  c.x[0].assign(c.x[0].size(), 1.1f);
  const LayerResult result = RunOnGpu(c);
  for (const float variance : result.gradients[kMovingVariance]) EXPECT_LT(variance, 1e-12f);
}

TEST(LayerNormalizationKernelTest, ManyShapes) {
  for (const std::vector<Shape>& input : NormalizedShapes()) {
    for (const size_t batch : {1, 17}) {
      ExpectLikeCpu(MakeLayerCase("layer_normalization {}", input, batch), kNormalizationTolerance);
    }
  }
}

TEST(LayerNormalizationKernelTest, LongRowsAndManyRows) {
  ExpectLikeCpu(MakeLayerCase("layer_normalization {}", {{2, 5000}}, 2), kNormalizationTolerance);
  ExpectLikeCpu(MakeLayerCase("layer_normalization {}", {{300, 5}}, 9), kNormalizationTolerance);
}

TEST(LayerNormalizationKernelTest, WithoutScaleOrCenterAndFrozen) {
  for (const char* fields :
       {"", "no_scale: true", "no_center: true", "no_scale: true no_center: true"}) {
    for (const bool trainable : {true, false}) {
      for (const bool asked : {true, false}) {
        LayerCase c = MakeLayerCase(absl::StrCat("layer_normalization { ", fields, " }"), {{4, 6}},
                                    3, trainable);
        c.asked = {asked};
        ExpectLikeCpu(c, kNormalizationTolerance);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::worker
