// Layers that move values: concatenate, permute, zero padding and up sampling; and rescaling.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/kernels/strides.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

void ExpectMovesLikeCpu(const std::string& spec, const std::vector<Shape>& inputs,
                        double tolerance = 0) {
  for (const size_t batch : {1, 3}) ExpectLikeCpu(MakeLayerCase(spec, inputs, batch), tolerance);
}

// More than fit into 32 bits.
TEST(StridesTest, ElementsOfVeryLargeArraysHaveTheirOwnPlaces) {
  cuda::Strides<2> strides;
  for (const int64_t size : {5, 70'000, 100'000}) {
    strides.Add({size, {}});
    strides.SetStride(0, size);
    strides.SetStride(1, 1);
  }
  cuda::Offsets<2> offsets = {};
  cuda::AddOffsets(strides, (size_t{3} * 70'000 + 69'999) * 100'000 + 99'998, &offsets);
  EXPECT_EQ(offsets.of[0], size_t{3} * 5 + size_t{69'999} * 70'000 + size_t{99'998} * 100'000);
  EXPECT_EQ(offsets.of[1], size_t{3} + 69'999 + 99'998);
}

TEST(ConcatenateKernelTest, InputsStandSideBySideAlongAnyAxis) {
  ExpectMovesLikeCpu("concatenate {}", {{1}, {1}});
  ExpectMovesLikeCpu("concatenate {}", {{2, 3}, {2, 5}, {2, 1}});
  ExpectMovesLikeCpu("concatenate { axis: 1 }", {{2, 3}, {4, 3}});
  ExpectMovesLikeCpu("concatenate { axis: 2 }", {{3, 2, 5}, {3, 1, 5}, {3, 4, 5}});
}

TEST(ConcatenateKernelTest, MoreInputsThanALaunchTakes) {
  for (const size_t count : {32, 33, 65}) {
    std::vector<Shape> inputs;
    for (size_t i = 0; i < count; ++i) inputs.push_back({3, 1 + i % 4});
    ExpectLikeCpu(MakeLayerCase("concatenate {}", inputs, 2), 0);
  }
}

TEST(ConcatenateKernelTest, MoreElementsThanAGridHasThreads) {
  ExpectLikeCpu(MakeLayerCase("concatenate {}", {{3, 50000}, {3, 1}}, 8), 0);
}

TEST(ConcatenateKernelTest, GradientsThatNobodyAsksForAreLeftOut) {
  LayerCase c = MakeLayerCase("concatenate {}", {{2, 3}, {2, 5}, {2, 1}}, 2);
  for (const size_t asked : {0, 1, 2}) {
    c.asked = {asked == 0, asked == 1, asked == 2};
    ExpectLikeCpu(c, 0);
  }
  c.asked = {false, false, false};
  ExpectLikeCpu(c, 0);
}

TEST(ConcatenateKernelTest, OneValueSeveralTimes) {
  LayerCase c = MakeLayerCase("concatenate {}", {{5}, {5}, {5}}, 2);
  c.one_value = true;
  ExpectLikeCpu(c, 0);
}

TEST(PermuteKernelTest, DimensionsInAnyOrder) {
  ExpectMovesLikeCpu("permute { dims: [2, 1] }", {{1, 1}});
  ExpectMovesLikeCpu("permute { dims: [2, 1] }", {{3, 5}});
  ExpectMovesLikeCpu("permute { dims: [3, 1, 2] }", {{3, 5, 7}});
  ExpectMovesLikeCpu("permute { dims: [2, 3, 1] }", {{3, 5, 7}});
  ExpectMovesLikeCpu("permute { dims: [1, 3, 2] }", {{3, 5, 7}});
  ExpectMovesLikeCpu("permute { dims: [4, 2, 3, 1] }", {{2, 3, 4, 5}});
  ExpectMovesLikeCpu("permute { dims: [4, 3, 1, 2] }", {{2, 1, 3, 2}});
}

TEST(PermuteKernelTest, ManyDimensions) {
  std::vector<int> dims;
  Shape shape;
  for (int i = 14; i >= 1; --i) {
    dims.push_back(i);
    shape.push_back(i % 5 == 0 ? 1 : 2);
  }
  ExpectMovesLikeCpu(absl::StrCat("permute { dims: [", absl::StrJoin(dims, ", "), "] }"), {shape});
}

TEST(PermuteKernelTest, MoreElementsThanAGridHasThreads) {
  ExpectLikeCpu(MakeLayerCase("permute { dims: [2, 1] }", {{1000, 221}}, 5), 0);
}

TEST(ZeroPaddingKernelTest, ImagesHaveZerosAroundThem) {
  ExpectMovesLikeCpu("zero_padding2d {}", {{1, 1, 1}});
  ExpectMovesLikeCpu("zero_padding2d { padding: 2 }", {{3, 4, 5}});
  ExpectMovesLikeCpu("zero_padding2d { padding: [1, 2, 3, 4] }", {{3, 4, 5}});
  ExpectMovesLikeCpu("zero_padding2d { padding: [0, 0, 0, 4] }", {{3, 4, 1}});
  ExpectMovesLikeCpu("zero_padding2d { padding: [0, 3, 2, 0] }", {{1, 4, 7}});
}

TEST(ZeroPaddingKernelTest, MoreElementsThanAGridHasThreads) {
  ExpectLikeCpu(MakeLayerCase("zero_padding2d { padding: 1 }", {{60, 60, 31}}, 10), 0);
}

TEST(UpSamplingKernelTest, PixelsAreRepeated) {
  ExpectMovesLikeCpu("up_sampling2d {}", {{1, 1, 1}}, 1e-6);
  ExpectMovesLikeCpu("up_sampling2d {}", {{3, 4, 5}}, 1e-6);
  ExpectMovesLikeCpu("up_sampling2d { size: [3, 1] }", {{3, 4, 5}}, 1e-6);
  ExpectMovesLikeCpu("up_sampling2d { size: [1, 5] }", {{2, 7, 3}}, 1e-6);
  ExpectMovesLikeCpu("up_sampling2d { size: [7, 9] }", {{2, 2, 1}}, 1e-6);
}

TEST(UpSamplingKernelTest, MoreElementsThanAGridHasThreads) {
  ExpectLikeCpu(MakeLayerCase("up_sampling2d {}", {{33, 32, 30}}, 10), 1e-6);
}

TEST(RescalingKernelTest, ValuesAreScaledAndShifted) {
  ExpectMovesLikeCpu("rescaling { scale: 0.5 offset: -3 }", {{1}}, 1e-6);
  ExpectMovesLikeCpu("rescaling { scale: 0.0078 offset: -1 }", {{7, 9}}, 1e-6);
  ExpectMovesLikeCpu("rescaling { offset: 2 }", {{300}}, 1e-6);
}

}  // namespace
}  // namespace millrace::worker
