// Convolutions of every kind and many shapes against the formula, element by element: oneDNN
// chooses among several kernels, and not all of them meet in reference_test.
#include "worker/device/cpu/layers/conv2d.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/thread_settings.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/model/image_window.h"

namespace millrace::worker {
namespace {

constexpr size_t kImages = 2;

class Choices {
 public:
  explicit Choices(unsigned seed) : random_(seed) {}
  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  // Small whole numbers, so that sums are exact in any order.
  std::vector<float> Numbers(size_t count) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = static_cast<float>(Between(0, 4)) - 2;
    return numbers;
  }

 private:
  std::mt19937 random_;
};

struct Convolution {
  std::string layer;
  Shape input;
};

Convolution RandomConv2D(Choices* choose) {
  const uint64_t groups = choose->Between(1, 3);
  const bool strided = choose->Between(0, 1) == 1;
  const auto factor = [&](bool wanted) { return wanted ? choose->Between(1, 3) : 1; };
  return {absl::StrCat("conv2d { filters: ", groups * choose->Between(1, 9), " groups: ", groups,
                       " kernel_size: [", choose->Between(1, 3), ", ", choose->Between(1, 3),
                       "] strides: [", factor(strided), ", ", factor(strided), "] dilation_rate: [",
                       factor(!strided), ", ", factor(!strided),
                       "] padding: ", choose->Between(0, 1) == 1 ? "SAME" : "VALID", " }"),
          {choose->Between(7, 10), choose->Between(7, 10), groups * choose->Between(1, 9)}};
}

Convolution RandomDepthwise(Choices* choose) {
  const bool strided = choose->Between(0, 1) == 1;
  return {absl::StrCat("depthwise_conv2d { depth_multiplier: ", choose->Between(1, 3),
                       " kernel_size: [", choose->Between(1, 3), ", ", choose->Between(1, 3),
                       "] strides: ", strided ? choose->Between(1, 3) : 1,
                       " dilation_rate: ", strided ? 1 : choose->Between(1, 3),
                       " padding: ", choose->Between(0, 1) == 1 ? "SAME" : "VALID", " }"),
          {choose->Between(7, 10), choose->Between(7, 10), choose->Between(1, 40)}};
}

Convolution RandomConv1D(Choices* choose) {
  const uint64_t groups = choose->Between(1, 3);
  const bool strided = choose->Between(0, 1) == 1;
  const char* const paddings[] = {"VALID", "SAME", "CAUSAL"};
  return {absl::StrCat("conv1d { filters: ", groups * choose->Between(1, 20), " groups: ", groups,
                       " kernel_size: ", choose->Between(1, 4),
                       " strides: ", strided ? choose->Between(1, 4) : 1,
                       " dilation_rate: ", strided ? 1 : choose->Between(1, 4),
                       " padding: ", paddings[choose->Between(0, 2)], " }"),
          {choose->Between(13, 40), groups * choose->Between(1, 20)}};
}

// Calls visit(x, kernel, y) with the indices of each product that adds to an element of the output.
template <typename Visit>
void ForEachProduct(const ImageWindow& conv, const Visit& visit) {
  const uint64_t filters = conv.output[2] / conv.groups;
  const uint64_t channels = conv.input[2] / conv.groups;
  const uint64_t above = PlaceWindows(conv, 0).pad_before;
  const uint64_t left = PlaceWindows(conv, 1).pad_before;
  size_t y = 0;
  for (size_t image = 0; image < kImages; ++image) {
    for (uint64_t top = 0; top < conv.output[0]; ++top) {
      for (uint64_t begin = 0; begin < conv.output[1]; ++begin) {
        for (uint64_t filter = 0; filter < conv.output[2]; ++filter, ++y) {
          for (uint64_t i = 0; i < conv.size[0] * conv.size[1] * channels; ++i) {
            const uint64_t channel = filter / filters * channels + i % channels;
            const uint64_t column = i / channels % conv.size[1];
            const uint64_t row = i / channels / conv.size[1];
            // Above and left of the image they are huge.
            const uint64_t h = top * conv.strides[0] + row * conv.dilation[0] - above;
            const uint64_t w = begin * conv.strides[1] + column * conv.dilation[1] - left;
            if (h >= conv.input[0] || w >= conv.input[1]) continue;
            const size_t pixel = (image * conv.input[0] + h) * conv.input[1] + w;
            visit(pixel * conv.input[2] + channel, i * conv.output[2] + filter, y);
          }
        }
      }
    }
  }
}

CpuBuffer BufferOf(const std::vector<float>& values) {
  CpuBuffer buffer(values.size());
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

void ExpectFormula(const Convolution& convolution, Choices* choose) {
  SCOPED_TRACE(absl::StrCat(convolution.layer, " of ", ShapeString(convolution.input)));
  const ModelPlan plan = PlanOrDie(absl::StrCat("layers { ", convolution.layer,
                                                " } layers { flatten {} } layers { dense { units: "
                                                "2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY"),
                                   convolution.input, 2);
  const LayerPlan& layer_plan = plan.layers[0];
  const ImageWindow conv = ImageWindowOf(layer_plan);
  KeptGradients gradients(plan);
  const std::vector<float> x = choose->Numbers(kImages * ElementCount(conv.input));
  const std::vector<float> kernel = choose->Numbers(gradients.Buffer(0).size());
  const std::vector<float> bias = choose->Numbers(gradients.Buffer(1).size());
  const std::vector<float> dy = choose->Numbers(kImages * ElementCount(conv.output));
  std::vector<float> expected_y(dy.size()), expected_dx(x.size()), expected_dk(kernel.size()),
      expected_db(bias.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    expected_y[i] = bias[i % bias.size()];
    expected_db[i % bias.size()] += dy[i];
  }
  ForEachProduct(conv, [&](size_t from, size_t factor, size_t to) {
    expected_y[to] += x[from] * kernel[factor];
    expected_dx[from] += dy[to] * kernel[factor];
    expected_dk[factor] += dy[to] * x[from];
  });

  const ScopedThreadSettings settings(/*threads=*/1);
  CpuContext context;
  const CpuBuffer kernel_place = BufferOf(kernel);
  const CpuBuffer bias_place = BufferOf(bias);
  CpuParameters parameters;
  parameters.Add(&kernel_place);
  parameters.Add(&bias_place);
  Conv2DLayer layer(&context, layer_plan, parameters, /*input_gradient=*/true);
  CpuPass pass;
  pass.batch = kImages;
  pass.gradients = &gradients;
  std::vector<float> y(dy.size()), dx(x.size()), taken = dy;
  layer.Prepare(kImages);
  layer.Forward(pass, x.data(), y.data());
  layer.Backward(pass, x.data(), y.data(), taken.data(), dx.data());
  EXPECT_EQ(y, expected_y);
  EXPECT_EQ(dx, expected_dx);
  EXPECT_EQ(gradients.gradient(0), expected_dk);
  EXPECT_EQ(gradients.gradient(1), expected_db);
}

TEST(Conv2DTest, GroupsDilationAndStridesOfManyShapes) {
  Choices choose(/*seed=*/11);
  for (int i = 0; i < 40; ++i) ExpectFormula(RandomConv2D(&choose), &choose);
}

TEST(Conv2DTest, DepthwiseConvolutionsOfManyShapes) {
  Choices choose(/*seed=*/12);
  for (int i = 0; i < 40; ++i) ExpectFormula(RandomDepthwise(&choose), &choose);
}

TEST(Conv2DTest, ConvolutionsOfSequencesOfManyShapes) {
  Choices choose(/*seed=*/13);
  for (int i = 0; i < 40; ++i) ExpectFormula(RandomConv1D(&choose), &choose);
}

// oneDNN's kernel for windows of one pixel wrote past its workspace there.
TEST(Conv2DTest, StridesOverWindowsOfOnePixelWithFewChannels) {
  Choices choose(/*seed=*/5);
  for (const int channels : {1, 3, 4, 7, 8, 15, 16, 17}) {
    for (const int filters : {8, 35}) {
      ExpectFormula({absl::StrCat("conv2d { filters: ", filters, " kernel_size: 1 strides: 2 }"),
                     {64, 64, static_cast<uint64_t>(channels)}},
                    &choose);
    }
  }
}

// oneDNN is asked for another implementation where that pays and is there: for the first of these.
TEST(Conv2DTest, OneChannelAndManyFilters) {
  Choices choose(/*seed=*/14);
  for (const char* layer : {"conv2d { filters: 32 kernel_size: 3 }",
                            "conv2d { filters: 32 kernel_size: 3 padding: SAME }",
                            "conv2d { filters: 20 kernel_size: 2 dilation_rate: 2 }",
                            "conv2d { filters: 32 kernel_size: 7 padding: SAME }"}) {
    ExpectFormula({layer, {12, 10, 1}}, &choose);
  }
}

}  // namespace
}  // namespace millrace::worker
