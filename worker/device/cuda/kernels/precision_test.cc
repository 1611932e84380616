// Products of matrices and convolutions in each precision, on an emulated GPU, against the formula:
// sums in double precision of products of rounded factors.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/layer_test_util.h"
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

double RoundTo(Precision precision, double value) {
  return RoundTo(precision == Precision::kTf32       ? 11
                 : precision == Precision::kBfloat16 ? 8
                                                     : 24,
                 value);
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

// Where a product's factors are, in the input and the kernel, and its sum in the output.
using Term = std::function<void(size_t x, size_t kernel, size_t y)>;

void ForEachTermOfDense(const LayerCase& c, const Term& term) {
  const size_t inputs = c.plan.input().back(), units = c.plan.output.back();
  for (size_t row = 0; row < c.dy.size() / units; ++row) {
    for (size_t i = 0; i < inputs; ++i) {
      for (size_t j = 0; j < units; ++j) term(row * inputs + i, i * units + j, row * units + j);
    }
  }
}

// A tap of one window: what the group's channels and filters have there.
struct Tap {
  size_t input;  // The pixel,
  size_t kernel;
  size_t output;
};

void ForEachTap(const ImageWindow& w, size_t batch, const std::function<void(const Tap&)>& call) {
  const auto pad = [&](size_t axis) {
    return static_cast<int64_t>(PlaceWindows(w, axis).pad_before);
  };
  const auto inside = [&](size_t axis, uint64_t at, uint64_t tap, size_t* position) {
    const int64_t there =
        static_cast<int64_t>(at * w.strides[axis] + tap * w.dilation[axis]) - pad(axis);
    *position = static_cast<size_t>(there);
    return there >= 0 && there < static_cast<int64_t>(w.input[axis]);
  };
  for (size_t output = 0; output < batch * w.output[0] * w.output[1]; ++output) {
    const size_t image = output / (w.output[0] * w.output[1]);
    const size_t row = output / w.output[1] % w.output[0], column = output % w.output[1];
    for (size_t kernel = 0; kernel < w.size[0] * w.size[1]; ++kernel) {
      size_t y = 0, x = 0;
      if (!inside(0, row, kernel / w.size[1], &y) || !inside(1, column, kernel % w.size[1], &x)) {
        continue;
      }
      call({(image * w.input[0] + y) * w.input[1] + x, kernel, output});
    }
  }
}

void ForEachTermOfConvolution(const LayerCase& c, const Term& term) {
  const ImageWindow w = ImageWindowOf(c.plan);
  const size_t channels = w.input[2] / w.groups, filters = w.output[2] / w.groups;
  ForEachTap(w, c.batch, [&](const Tap& tap) {
    for (size_t filter = 0; filter < w.output[2]; ++filter) {
      for (size_t channel = 0; channel < channels; ++channel) {
        term(tap.input * w.input[2] + filter / filters * channels + channel,
             (tap.kernel * channels + channel) * w.output[2] + filter,
             tap.output * w.output[2] + filter);
      }
    }
  });
}

void ForEachTerm(const LayerCase& c, const Term& term) {
  c.plan.spec.has_dense() ? ForEachTermOfDense(c, term) : ForEachTermOfConvolution(c, term);
}

std::vector<float> Floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Of a layer with a bias and no activation; that of factors rounded to `precision`.
LayerResult ByTheFormula(const LayerCase& c, Precision precision) {
  const std::vector<float>&kernel = c.parameters[0], &bias = c.parameters[1];
  std::vector<double> y(c.dy.size()), dx(c.x[0].size()), of_kernel(kernel.size()),
      of_bias(bias.size());
  ForEachTerm(c, [&](size_t i, size_t k, size_t j) {
    const double factor_x = RoundTo(precision, c.x[0][i]);
    const double factor_kernel = RoundTo(precision, kernel[k]);
    const double factor_dy = RoundTo(precision, c.dy[j]);
    y[j] += factor_x * factor_kernel;
    dx[i] += factor_dy * factor_kernel;
    of_kernel[k] += factor_x * factor_dy;
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
double LeastDifference(Precision precision) {
  return precision == Precision::kTf32 ? 1e-4 : precision == Precision::kBfloat16 ? 1e-3 : 0;
}

constexpr double kSumTolerance = 2e-5;

void ExpectPrecision(const std::string& layer, const Shape& input, size_t batch,
                     double tolerance = kSumTolerance) {
  for (const Precision precision : {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16}) {
    SCOPED_TRACE(layer + ", precision " + std::to_string(static_cast<int>(precision)));
    const LayerCase c = LongFractions(layer, input, batch, precision);
    const LayerResult result = RunOnGpu(c);
    ExpectClose(result, ByTheFormula(c, precision), tolerance);
    if (precision == Precision::kFloat32) continue;
    const LayerResult exact = ByTheFormula(c, Precision::kFloat32);
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

// Large tiles, with channels by fours and without; sums of many positions, in parts.
TEST_F(PrecisionTest, ConvolutionsOfManyTilesRoundTheFactorsOfTheirProducts) {
  ExpectPrecision("conv2d { filters: 36 kernel_size: 2 }", {33, 34, 36}, 8, /*tolerance=*/1e-4);
  ExpectPrecision("conv2d { filters: 35 kernel_size: 2 strides: 2 padding: SAME }", {47, 45, 35},
                  16,
                  /*tolerance=*/1e-4);
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

// Neither on those beside it, nor on the tiles that are chosen for them all.
TEST_F(PrecisionTest, AnImageHasTheSameBitsInEveryBatch) {
  const std::string layer = "conv2d { filters: 36 kernel_size: [1, 2] padding: SAME }";
  for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
    const LayerCase many = LongFractions(layer, {65, 63, 36}, 5, precision);
    LayerCase one = LongFractions(layer, {65, 63, 36}, 1, precision);
    one.x[0].assign(many.x[0].begin(), many.x[0].begin() + one.x[0].size());
    one.dy.assign(many.dy.begin(), many.dy.begin() + one.dy.size());
    one.parameters = many.parameters;
    const LayerResult of_many = RunOnGpu(many);
    const LayerResult of_one = RunOnGpu(one);
    EXPECT_TRUE(std::equal(of_one.y.begin(), of_one.y.end(), of_many.y.begin()));
    EXPECT_TRUE(std::equal(of_one.dx[0].begin(), of_one.dx[0].end(), of_many.dx[0].begin()));
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
