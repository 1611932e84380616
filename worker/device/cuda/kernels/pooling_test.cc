// Poolings on an emulated GPU: sums are in the order of the CPU's, so bits are equal, but for
// global means.
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint64_t SomeNumber(std::mt19937* random, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(*random);
}

TEST(PoolingKernelTest, ManyWindowsOfImages) {
  std::mt19937 random(31);
  for (int i = 0; i < 30; ++i) {
    const auto some = [&](uint64_t low, uint64_t high) { return SomeNumber(&random, low, high); };
    const std::string fields =
        absl::StrCat(" { pool_size: [", some(1, 4), ", ", some(1, 4), "] strides: [", some(1, 5),
                     ", ", some(1, 5), "] padding: ", some(0, 1) == 1 ? "SAME" : "VALID", " }");
    const Shape input = {some(4, 9), some(4, 9), some(1, 40)};
    const size_t batch = some(1, 3);
    SCOPED_TRACE(ShapeString(input));
    ExpectLikeCpu(MakeLayerCase(absl::StrCat("max_pool2d", fields), {input}, batch), 0);
    ExpectLikeCpu(MakeLayerCase(absl::StrCat("average_pooling2d", fields), {input}, batch), 0);
  }
}

TEST(PoolingKernelTest, ManyWindowsOfSequences) {
  std::mt19937 random(32);
  for (int i = 0; i < 30; ++i) {
    const auto some = [&](uint64_t low, uint64_t high) { return SomeNumber(&random, low, high); };
    const std::string fields = absl::StrCat(" { pool_size: ", some(1, 6), " strides: ", some(1, 6),
                                            " padding: ", some(0, 1) == 1 ? "SAME" : "VALID", " }");
    const Shape input = {some(6, 30), some(1, 40)};
    SCOPED_TRACE(ShapeString(input));
    ExpectLikeCpu(MakeLayerCase(absl::StrCat("max_pool1d", fields), {input}, 2), 0);
    ExpectLikeCpu(MakeLayerCase(absl::StrCat("average_pooling1d", fields), {input}, 2), 0);
  }
}

TEST(PoolingKernelTest, WindowsLargerThanTheImage) {
  for (const char* kind : {"max_pool2d", "average_pooling2d"}) {
    const std::string fields = " { pool_size: [5, 7] strides: [1, 70] padding: SAME }";
    ExpectLikeCpu(MakeLayerCase(absl::StrCat(kind, fields), {{3, 4, 2}}, 2), 0);
  }
}

TEST(PoolingKernelTest, GlobalOnes) {
  for (const char* kind : {"global_average_pooling", "global_max_pooling"}) {
    for (const Shape& image :
         {Shape{1, 1, 1}, Shape{3, 2, 5}, Shape{7, 7, 33}, Shape{20, 21, 64}}) {
      ExpectLikeCpu(MakeLayerCase(absl::StrCat(kind, "2d {}"), {image}, 3), 1e-6);
      ExpectLikeCpu(
          MakeLayerCase(absl::StrCat(kind, "1d {}"), {{image[0] * image[1], image[2]}}, 1), 1e-6);
    }
  }
}

// As MaxPool2DTest's (worker/device/cpu/layers/max_pool2d_test.cc).
LayerCase ThreeByThree(const char* padding) {
  return MakeLayerCase(absl::StrCat("max_pool2d { pool_size: 2 padding: ", padding, " }"),
                       {{3, 3, 2}}, 1);
}

TEST(PoolingKernelTest, FirstOfEqualValuesTakesTheGradient) {
  LayerCase c = ThreeByThree("VALID");
  c.x[0] = {1, 7, 5, 7, 0, 0, 5, 7, 5, 7, 0, 0, 9, 9, 9, 9, 9, 9};
  c.dy = {3, 4};
  const LayerResult result = RunOnGpu(c);
  EXPECT_THAT(result.y, ElementsAre(5, 7));
  EXPECT_THAT(result.dx[0], ElementsAre(0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(PoolingKernelTest, PaddingNeverWins) {
  LayerCase c = ThreeByThree("SAME");
  c.x[0].assign(18, -5.0f);
  EXPECT_THAT(RunOnGpu(c).y, ElementsAre(-5, -5, -5, -5, -5, -5, -5, -5));
}

TEST(PoolingKernelTest, NanIsTheLargest) {
  for (const size_t pixel : {0, 1, 3, 4}) {
    LayerCase c = ThreeByThree("VALID");
    c.x[0].assign(18, 2.0f);
    c.x[0][2 * pixel] = kNan;
    ExpectLikeCpu(c, 0);
    c.x[0][6] = kNan;
    ExpectLikeCpu(c, 0);
  }
}

// Over more positions than a block has lanes.
TEST(PoolingKernelTest, GlobalWinnersAreTheCpus) {
  for (const size_t count : {1, 2, 5, 30}) {
    for (const float value : {3.0f, kNan}) {
      LayerCase c = MakeLayerCase("global_max_pooling1d {}", {{30, 3}}, 2);
      std::mt19937 random(static_cast<unsigned>(count));
      for (size_t i = 0; i < count; ++i) c.x[0][SomeNumber(&random, 0, 179)] = value;
      ExpectLikeCpu(c, 0);
    }
  }
  LayerCase zeros = MakeLayerCase("global_max_pooling1d {}", {{30, 3}}, 2);
  for (size_t i = 0; i < zeros.x[0].size(); ++i) zeros.x[0][i] = i % 2 == 0 ? 0.0f : -0.0f;
  ExpectLikeCpu(zeros, 0);
}

}  // namespace
}  // namespace millrace::worker
