// Products of matrices and convolutions in each precision, on an emulated GPU, against the formula:
// sums in double precision of products of rounded factors.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/layer_test_util.h"
#include "worker/device/cuda/test_library.h"
#include "worker/model/image_window.h"

namespace millrace::worker {
namespace {

using cuda::Precision;

// To so many significant bits.
double RoundTo(int bits, double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, bits)), exponent - bits);
}

std::vector<double> Rounded(Precision precision, const std::vector<float>& values) {
  const int bits = precision == Precision::kTf32 ? 11 : precision == Precision::kBfloat16 ? 8 : 24;
  std::vector<double> rounded;
  for (const float value : values) rounded.push_back(RoundTo(bits, value));
  return rounded;
}

// In [0.5, 1) or (-1, -0.5], with all 24 bits of a float32 in use, so that none is halfway between
// two of a shorter type: there what cuBLASLt makes of it is not said.
void FillWithLongFractions(unsigned seed, std::vector<float>* values) {
  std::mt19937 random(seed);
  for (float& value : *values) {
    const auto bits = static_cast<uint32_t>(random());
    const auto fraction = static_cast<float>((bits >> 9) | (1u << 23) | 1u);
    value = std::ldexp((bits & 1) != 0 ? fraction : -fraction, -24);
  }
}

LayerCase LongFractions(const std::string& layer, const Shape& input, size_t batch,
                        Precision precision) {
  LayerCase c = MakeLayerCase(layer, {input}, batch);
  unsigned seed = 1;
  for (std::vector<float>& values : c.x) FillWithLongFractions(seed++, &values);
  for (std::vector<float>& values : c.parameters) FillWithLongFractions(seed++, &values);
  FillWithLongFractions(seed, &c.dy);
  c.precision = precision;
  return c;
}

// Calls term(x, kernel, y) for each product: where its factors are in the input and the kernel, and
// its sum in the output.
template <typename Term>
void ForEachTermOfDense(const LayerCase& c, const Term& term) {
  const size_t inputs = c.plan.input().back(), units = c.plan.output.back();
  for (size_t row = 0; row < c.dy.size() / units; ++row) {
    for (size_t i = 0; i < inputs; ++i) {
      for (size_t j = 0; j < units; ++j) term(row * inputs + i, i * units + j, row * units + j);
    }
  }
}

// Of a window's tap: which pixel of the input it sees, if any, in that of the output.
struct SeenPixel {
  bool inside;
  size_t input;
};

SeenPixel PixelSeen(const ImageWindow& w, size_t output, size_t tap) {
  const std::array<size_t, 2> at = {output / w.output[1] % w.output[0], output % w.output[1]};
  const std::array<size_t, 2> taps = {tap / w.size[1], tap % w.size[1]};
  SeenPixel seen = {true, output / (w.output[0] * w.output[1])};
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t position =
        static_cast<int64_t>(at[axis] * w.strides[axis] + taps[axis] * w.dilation[axis]) -
        static_cast<int64_t>(PlaceWindows(w, axis).pad_before);
    seen.inside = seen.inside && position >= 0 && position < static_cast<int64_t>(w.input[axis]);
    seen.input = seen.input * w.input[axis] + static_cast<size_t>(position);
  }
  return seen;
}

template <typename Term>
void ForEachTermOfConvolution(const LayerCase& c, const Term& term) {
  const ImageWindow w = ImageWindowOf(c.plan);
  const size_t channels = w.input[2] / w.groups, filters = w.output[2] / w.groups;
  for (size_t output = 0; output < c.dy.size() / w.output[2]; ++output) {
    for (size_t tap = 0; tap < w.size[0] * w.size[1]; ++tap) {
      const SeenPixel seen = PixelSeen(w, output, tap);
      if (!seen.inside) continue;
      for (size_t channel = 0; channel < channels; ++channel) {
        for (size_t filter = 0; filter < w.output[2]; ++filter) {
          term(seen.input * w.input[2] + filter / filters * channels + channel,
               (tap * channels + channel) * w.output[2] + filter, output * w.output[2] + filter);
        }
      }
    }
  }
}

template <typename Term>
void ForEachTerm(const LayerCase& c, const Term& term) {
  c.plan.spec.has_dense() ? ForEachTermOfDense(c, term) : ForEachTermOfConvolution(c, term);
}

std::vector<float> Floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Of a layer with a bias and no activation, whose products' factors are rounded to `precision`.
LayerResult ByTheFormula(const LayerCase& c, Precision precision) {
  const std::vector<double> rounded_x = Rounded(precision, c.x[0]);
  const std::vector<double> rounded_kernel = Rounded(precision, c.parameters[0]);
  const std::vector<double> rounded_dy = Rounded(precision, c.dy);
  const std::vector<float>& bias = c.parameters[1];
  std::vector<double> y(c.dy.size()), dx(c.x[0].size()), of_kernel(rounded_kernel.size()),
      of_bias(bias.size());
  ForEachTerm(c, [&](size_t i, size_t k, size_t j) {
    y[j] += rounded_x[i] * rounded_kernel[k];
    dx[i] += rounded_dy[j] * rounded_kernel[k];
    of_kernel[k] += rounded_x[i] * rounded_dy[j];
  });
  for (size_t j = 0; j < y.size(); ++j) {
    y[j] += bias[j % bias.size()];
    of_bias[j % bias.size()] += c.dy[j];
  }
  return {Floats(y), {Floats(dx)}, {Floats(of_kernel), Floats(of_bias)}};
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  }
  return largest;
}

// How far results are at least from those of factors that are not rounded: a few of the errors of
// single products.
double LeastDifference(Precision precision) { return precision == Precision::kTf32 ? 3e-4 : 3e-3; }

// Of sums in float32 of products up to 1: of a few hundred, and of some ten thousand. Tensor cores
// do not round what they add up but cut it off.
constexpr double kSumTolerance = 2e-5;
double LongSumTolerance() { return OnRealGpu() ? 1e-3 : 2e-4; }

// How cuBLASLt, which multiplies whole matrices, makes TF32 of a factor is not said, nor that it
// does: real ones may cut off what the emulated one rounds.
bool FactorsAreUnsaid(const LayerCase& c, Precision precision) {
  const std::array<size_t, 2> pixel = {1, 1};
  const bool whole = c.plan.spec.has_dense() || ImageWindowOf(c.plan).size == pixel;
  return whole && precision == Precision::kTf32 && OnRealGpu();
}

// Of sums of products of factors below 1, each of which has lost less than 2^-11.
double CutOffTolerance(const LayerCase& c) {
  const size_t inputs = c.plan.input().back(), units = c.plan.output.back();
  return 0x1p-10 * static_cast<double>(std::max({inputs, units, c.dy.size() / units}));
}

void ExpectPrecision(const std::string& layer, const Shape& input, size_t batch,
                     double tolerance = kSumTolerance) {
  for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
    SCOPED_TRACE(layer + ", precision " + std::to_string(static_cast<int>(precision)));
    const LayerCase c = LongFractions(layer, input, batch, precision);
    const LayerResult result = RunOnGpu(c);
    const LayerResult exact = ByTheFormula(c, Precision::kFloat32);
    if (FactorsAreUnsaid(c, precision)) {
      ExpectClose(result, exact, CutOffTolerance(c));
      continue;
    }
    ExpectClose(result, ByTheFormula(c, precision), tolerance);
    const double least = LeastDifference(precision);
    EXPECT_GT(LargestDifference(result.y, exact.y), least);
    EXPECT_GT(LargestDifference(result.dx[0], exact.dx[0]), least);
    EXPECT_GT(LargestDifference(result.gradients[0], exact.gradients[0]), least);
  }
}

class PrecisionTest : public ::testing::Test {
 protected:
  PrecisionTest() { cuda_emulation::Reset(); }
  ~PrecisionTest() override { cuda_emulation::Reset(); }
};

TEST_F(PrecisionTest, DenseLayersRoundTheFactorsOfTheirProducts) {
  ExpectPrecision("dense { units: 7 }", {33}, 5);
  ExpectPrecision("dense { units: 64 }", {3, 20}, 4);
}

TEST_F(PrecisionTest, ConvolutionsRoundTheFactorsOfTheirProducts) {
  ExpectPrecision("conv2d { filters: 8 kernel_size: 3 padding: SAME }", {9, 8, 4}, 2);
  ExpectPrecision("conv2d { filters: 5 kernel_size: [2, 3] strides: [2, 3] }", {9, 11, 3}, 3);
  ExpectPrecision("conv2d { filters: 12 kernel_size: 3 dilation_rate: [2, 1] groups: 2 }",
                  {9, 8, 6}, 2);
  ExpectPrecision("conv2d { filters: 20 kernel_size: 1 }", {5, 6, 9}, 2);
  ExpectPrecision("conv1d { filters: 6 kernel_size: 3 padding: CAUSAL }", {17, 5}, 2);
}

// Tiles of every size forwards, back, and of the kernel's gradient, with channels by fours and
// without, and sums of many positions in parts.
TEST_F(PrecisionTest, ConvolutionsOfManyTilesRoundTheFactorsOfTheirProducts) {
  const auto expect = [](const std::string& filters, const Shape& input, size_t batch) {
    ExpectPrecision("conv2d { filters: " + filters + " }", input, batch, LongSumTolerance());
  };
  expect("36 kernel_size: [1, 2]", {33, 34, 4}, 16);
  expect("35 kernel_size: [1, 2]", {33, 34, 3}, 16);
  expect("4 kernel_size: [2, 1]", {33, 34, 36}, 16);
  expect("3 kernel_size: [2, 1]", {33, 34, 35}, 16);
  expect("20 kernel_size: [1, 2]", {33, 34, 4}, 16);
  expect("4 kernel_size: [2, 1]", {33, 34, 20}, 16);
  expect("20 kernel_size: 3", {17, 18, 9}, 5);
  expect("36 kernel_size: 3 strides: 2", {35, 33, 8}, 5);
  expect("35 kernel_size: 3 strides: 2", {35, 33, 9}, 5);
}

TEST_F(PrecisionTest, DepthwiseConvolutionsComputeInFloat32) {
  const std::string layer = "depthwise_conv2d { kernel_size: 3 }";
  const LayerResult expected = RunOnGpu(LongFractions(layer, {7, 6, 5}, 2, Precision::kFloat32));
  for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
    ExpectSame(RunOnGpu(LongFractions(layer, {7, 6, 5}, 2, precision)), expected);
  }
}

TEST_F(PrecisionTest, BitsDoNotDependOnTheOrderOfThreads) {
  for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
    for (const char* layer : {"conv2d { filters: 9 kernel_size: 3 padding: SAME }",
                              "conv2d { filters: 36 kernel_size: 3 strides: 2 }"}) {
      const LayerCase c = LongFractions(layer, {9, 8, 4}, 3, precision);
      const LayerResult first = RunOnGpu(c);
      for (uint64_t order = 1; order < 8; ++order) {
        cuda_emulation::SetOrder(order);
        ExpectSame(RunOnGpu(c), first);
      }
      cuda_emulation::Reset();
    }
  }
}

// Whatever tiles are chosen for it and those beside it.
TEST_F(PrecisionTest, AnImageHasTheSameBitsInEveryBatch) {
  struct Case {
    std::string layer;
    Shape input;
  };
  for (const auto& [layer, input] :
       {Case{"conv2d { filters: 36 kernel_size: [1, 2] }", {65, 53, 4}},
        Case{"conv2d { filters: 4 kernel_size: [1, 2] }", {65, 53, 36}}}) {
    for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
      const LayerCase many = LongFractions(layer, input, 5, precision);
      LayerCase one = LongFractions(layer, input, 1, precision);
      one.x[0].assign(many.x[0].begin(), many.x[0].begin() + one.x[0].size());
      one.dy.assign(many.dy.begin(), many.dy.begin() + one.dy.size());
      one.parameters = many.parameters;
      const LayerResult of_many = RunOnGpu(many);
      const LayerResult of_one = RunOnGpu(one);
      EXPECT_TRUE(std::equal(of_one.y.begin(), of_one.y.end(), of_many.y.begin()));
      EXPECT_TRUE(std::equal(of_one.dx[0].begin(), of_one.dx[0].end(), of_many.dx[0].begin()));
    }
  }
}

TEST_F(PrecisionTest, WhatIsNoNumberShowsInWhatItIsPartOf) {
  for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
    for (const char* layer : {"conv2d { filters: 3 kernel_size: 2 activation: RELU }",
                              "dense { units: 3 activation: RELU }"}) {
      LayerCase c = LongFractions(layer, {4, 4, 5}, 1, precision);
      c.training = false;
      c.x[0][0] = std::numeric_limits<float>::quiet_NaN();
      c.x[0].back() = 3e38f;
      const std::vector<float> y = RunOnGpu(c).y;
      EXPECT_TRUE(std::isnan(y.front()));
      EXPECT_FALSE(std::isnan(y.back()));
    }
  }
}

}  // namespace
}  // namespace millrace::worker
