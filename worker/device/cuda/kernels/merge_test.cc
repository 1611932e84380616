#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/layer_test_util.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {
namespace {

constexpr double kMergeTolerance = 1e-6;

class MergeKernelTest : public ::testing::TestWithParam<const char*> {
 protected:
  static bool TakesTwo() { return std::string(GetParam()) == "subtract"; }

  static LayerCase CaseOf(const std::vector<Shape>& inputs, size_t batch) {
    return MakeLayerCase(absl::StrCat(GetParam(), " {}"), inputs, batch);
  }

  static void ExpectMergesLikeCpu(const std::vector<Shape>& inputs) {
    if (TakesTwo() && inputs.size() != 2) return;
    for (const size_t batch : {1, 3}) ExpectLikeCpu(CaseOf(inputs, batch), kMergeTolerance);
  }

  // Of two inputs.
  static void ExpectExactSums(const Shape& a, const Shape& b, size_t batch = 3) {
    LayerCase c = CaseOf({a, b}, batch);
    UseWholeNumbers(&c);
    ExpectLikeCpu(c, 0);
  }
};

TEST_P(MergeKernelTest, InputsOfOneShape) {
  ExpectMergesLikeCpu({{1}, {1}});
  ExpectMergesLikeCpu({{7}, {7}});
  ExpectMergesLikeCpu({{3, 5, 2}, {3, 5, 2}, {3, 5, 2}});
  ExpectMergesLikeCpu({{1, 5}, {5}});
}

TEST_P(MergeKernelTest, MoreInputsThanALaunchTakes) {
  for (const size_t inputs : {8, 9, 10, 17, 35}) {
    ExpectMergesLikeCpu(std::vector<Shape>(inputs, {2, 3}));
  }
}

TEST_P(MergeKernelTest, RepeatedAlongAnyDimension) {
  ExpectMergesLikeCpu({{4, 3, 2}, {1, 1, 2}});
  ExpectMergesLikeCpu({{4, 3, 2}, {4, 3, 1}});
  ExpectMergesLikeCpu({{4, 1, 2}, {4, 3, 1}});
  ExpectMergesLikeCpu({{3, 1}, {2, 1, 5}});
  ExpectMergesLikeCpu({{1, 3, 1, 5}, {2, 1, 4, 1}});
  ExpectMergesLikeCpu({{1}, {2, 3}});
  ExpectMergesLikeCpu({{5, 1, 1}, {5}});
  ExpectMergesLikeCpu({{2}, {3, 1}, {4, 1, 1}, {1}});
}

TEST_P(MergeKernelTest, ManyInputsOfManyShapes) {
  ExpectMergesLikeCpu({{2, 3, 4},
                       {3, 1},
                       {4},
                       {2, 1, 4},
                       {1},
                       {2, 3, 4},
                       {2, 1, 1},
                       {1, 3, 4},
                       {4},
                       {3, 4},
                       {2, 3, 1},
                       {1, 1}});
}

TEST_P(MergeKernelTest, ManyDimensions) {
  Shape even(13, 1), odd(13, 1);
  for (size_t i = 0; i < even.size(); ++i) (i % 2 == 0 ? even : odd)[i] = 2;
  ExpectExactSums(even, odd);
}

// Where it is all of a long row, several threads share each of its sums; so they do where it is the
// last dimension, and others are added up.
TEST_P(MergeKernelTest, LongSums) {
  ExpectExactSums({3, 5000}, {3, 1});
  ExpectExactSums({1}, {2, 1024});
  ExpectExactSums({2, 2049}, {2049});
  ExpectExactSums({13, 11, 9}, {9});
  ExpectExactSums({13, 11, 300}, {300});
  ExpectExactSums({3, 8, 2}, {3, 1, 2});
}

TEST_P(MergeKernelTest, MoreElementsThanAGridHasThreads) {
  ExpectExactSums({110, 1001}, {1001}, 10);
}

TEST_P(MergeKernelTest, OneValueSeveralTimes) {
  const size_t most = TakesTwo() ? 2 : 10;
  for (size_t inputs = 2; inputs <= most; ++inputs) {
    LayerCase c = CaseOf(std::vector<Shape>(inputs, {3, 5}), 2);
    c.one_value = true;
    ExpectLikeCpu(c, kMergeTolerance);
  }
}

TEST_P(MergeKernelTest, GradientsThatNobodyAsksForAreLeftOut) {
  for (const Shape& second : std::vector<Shape>{{4, 3}, {3}, {1}}) {
    for (const bool first_asked : {false, true}) {
      LayerCase c = CaseOf({{4, 3}, second}, 2);
      c.asked = {first_asked, !first_asked};
      ExpectLikeCpu(c, kMergeTolerance);
    }
  }
}

TEST_P(MergeKernelTest, WhatIsNotFiniteIsLikeTheCpus) {
  LayerCase c = CaseOf({{8}, {8}}, 1);
  c.x[0] = {kNan, 1, kNan, kInfinity, -kInfinity, kInfinity, 0, 1};
  c.x[1] = {1, kNan, kNan, 1, 1, -kInfinity, -0.0f, 1};
  c.dy = {1, 2, 3, 4, 5, 6, 7, kNan};
  ExpectLikeCpu(c, kMergeTolerance);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MergeKernelTest,
                         ::testing::Values("add", "subtract", "multiply", "average", "maximum"),
                         [](const auto& instance) { return instance.param; });

TEST(AddKernelTest, ReluWithin) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5, 2}}) {
    LayerCase c = MakeLayerCase("add {}", {shape, shape}, 3);
    c.then = RELU;
    ExpectLikeCpu(c, kMergeTolerance);
    c.x[0][0] = NAN;
    ExpectLikeCpu(c, kMergeTolerance);
    c.asked = {false, true};
    ExpectLikeCpu(c, kMergeTolerance);
  }
}

// Sums of two values with ReLU, of one example.
class ReluSumTest : public ::testing::Test {
 protected:
  // The gradient by the first input stands in the place of that by the sum, that by the second one
  // so many floats behind what is aligned. Returns how many launches there are.
  uint64_t ExpectGradients(size_t elements, size_t offset) {
    std::vector<float> y(elements), dy(elements), expected(elements);
    for (size_t i = 0; i < elements; ++i) {
      y[i] = i % 3 == 0 ? 0 : static_cast<float>(i);
      dy[i] = static_cast<float>(i) - 5;
      expected[i] = y[i] > 0 ? dy[i] : 0;
    }
    const auto layer = gpu_->Make(DescriptionOf(static_cast<int64_t>(elements)));
    const auto sums = OnDevice(gpu_.get(), y);
    const auto first = OnDevice(gpu_.get(), dy);
    DeviceMemory second(gpu_.get(), (elements + offset) * sizeof(float));
    float* const dx[] = {first->As(), second.As() + offset};
    const float* const x[] = {nullptr, nullptr};
    cuda::Pass pass;
    pass.batch = 1;
    const uint64_t before = cuda_emulation::Counted().launches;
    layer->Backward(pass, x, sums->As(), first->As(), dx);
    const uint64_t launches = cuda_emulation::Counted().launches - before;
    EXPECT_EQ(first->Values(), expected) << elements;
    const std::vector<float> values = second.Values();
    EXPECT_EQ(std::vector<float>(values.begin() + static_cast<int64_t>(offset), values.end()),
              expected)
        << elements;
    return launches;
  }

 private:
  static cuda::MergeDescription DescriptionOf(int64_t elements) {
    cuda::MergeDescription description;
    description.kind = cuda::MergeKind::kAdd;
    description.relu = true;
    description.output = {elements};
    description.strides = {{1}, {1}};
    description.elements = {elements, elements};
    return description;
  }

  const std::unique_ptr<cuda::Gpu> gpu_ = OpenTestGpu();
};

TEST_F(ReluSumTest, OneLaunchWritesTheGradientsByBothInputs) {
  MILLRACE_NEEDS_EMULATION();
  for (const size_t elements : {1, 4, 7, 1000, 5003}) EXPECT_EQ(ExpectGradients(elements, 0), 1);
}

TEST_F(ReluSumTest, GradientsMayStandAnywhere) {
  for (const size_t offset : {1, 2, 4}) ExpectGradients(103, offset);
}

TEST(MaximumKernelTest, TheFirstOfEqualsHasTheGradient) {
  for (const size_t inputs : {2, 3, 20}) {
    LayerCase c = MakeLayerCase("maximum {}", std::vector<Shape>(inputs, {40}), 2);
    for (auto& x : c.x) {
      for (float& value : x) value = value < -0.3f ? -1 : value < 0.3f ? 0 : 1;
    }
    c.x[1][7] = c.x[inputs - 1][7] = kNan;
    ExpectLikeCpu(c, 0);
  }
}

}  // namespace
}  // namespace millrace::worker
