// Convolutions on an emulated GPU. Values are small whole numbers, so that sums are exact in any
// order and equal the CPU's, which conv2d_test compares with the formula.
#include "worker/device/cuda/kernels/convolution.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/layer_test_util.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {
namespace {

class ConvolutionChoices {
 public:
  explicit ConvolutionChoices(unsigned seed) : random_(seed) {}

  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  bool Coin() { return Between(0, 1) == 1; }
  std::string Padding() { return Coin() ? "SAME" : "VALID"; }

  void WholeNumbers(std::vector<float>* numbers) {
    for (float& number : *numbers) number = static_cast<float>(Between(0, 4)) - 2;
  }

 private:
  std::mt19937 random_;
};

struct ConvolutionShape {
  std::string layer;
  Shape input;
};

LayerCase WholeNumberCase(const ConvolutionShape& shape, size_t batch, bool trainable = true) {
  LayerCase c = MakeLayerCase(shape.layer, {shape.input}, batch, trainable);
  ConvolutionChoices choose(/*seed=*/3);
  for (std::vector<float>& values : c.x) choose.WholeNumbers(&values);
  for (std::vector<float>& values : c.parameters) choose.WholeNumbers(&values);
  choose.WholeNumbers(&c.dy);
  return c;
}

void ExpectExact(const ConvolutionShape& shape, size_t batch) {
  SCOPED_TRACE(absl::StrCat(shape.layer, " of ", ShapeString(shape.input), ", batch ", batch));
  ExpectLikeCpu(WholeNumberCase(shape, batch), /*tolerance=*/0);
}

// Channels of a group: now and then as many as are loaded at once, and around the sizes of tiles.
uint64_t SomeChannels(ConvolutionChoices* choose) {
  switch (choose->Between(0, 3)) {
    case 0:
      return choose->Between(1, 9);
    case 1:
      return 4 * choose->Between(1, 10);
    case 2:
      return choose->Between(30, 36);
    default:
      return choose->Between(62, 66);
  }
}

ConvolutionShape SomeConvolution(ConvolutionChoices* choose) {
  const uint64_t groups = choose->Coin() ? 1 : choose->Between(2, 3);
  const bool strided = choose->Coin();
  const auto factor = [&](bool wanted) { return wanted ? choose->Between(1, 4) : 1; };
  return {absl::StrCat("conv2d { filters: ", groups * SomeChannels(choose), " groups: ", groups,
                       " kernel_size: [", choose->Between(1, 4), ", ", choose->Between(1, 4),
                       "] strides: [", factor(strided), ", ", factor(strided), "] dilation_rate: [",
                       factor(!strided), ", ", factor(!strided), "] padding: ", choose->Padding(),
                       " no_bias: ", choose->Coin() ? "true" : "false", " }"),
          {choose->Between(13, 16), choose->Between(13, 16), groups * SomeChannels(choose)}};
}

ConvolutionShape SomeDepthwise(ConvolutionChoices* choose) {
  const bool strided = choose->Coin();
  return {absl::StrCat("depthwise_conv2d { depth_multiplier: ", choose->Between(1, 3),
                       " kernel_size: [", choose->Between(1, 4), ", ", choose->Between(1, 4),
                       "] strides: ", strided ? choose->Between(1, 4) : 1, " dilation_rate: ",
                       strided ? 1 : choose->Between(1, 3), " padding: ", choose->Padding(), " }"),
          {choose->Between(10, 14), choose->Between(10, 14), choose->Between(1, 70)}};
}

ConvolutionShape SomeConv1D(ConvolutionChoices* choose) {
  const uint64_t groups = choose->Between(1, 3);
  const bool strided = choose->Coin();
  const char* const paddings[] = {"VALID", "SAME", "CAUSAL"};
  return {absl::StrCat("conv1d { filters: ", groups * SomeChannels(choose), " groups: ", groups,
                       " kernel_size: ", choose->Between(1, 5),
                       " strides: ", strided ? choose->Between(1, 5) : 1,
                       " dilation_rate: ", strided ? 1 : choose->Between(1, 5),
                       " padding: ", paddings[choose->Between(0, 2)], " }"),
          {choose->Between(21, 60), groups * SomeChannels(choose)}};
}

TEST(ConvolutionKernelTest, GroupsDilationAndStridesOfManyShapes) {
  ConvolutionChoices choose(/*seed=*/21);
  for (int i = 0; i < 30; ++i) ExpectExact(SomeConvolution(&choose), choose.Between(1, 3));
}

TEST(ConvolutionKernelTest, DepthwiseConvolutionsOfManyShapes) {
  ConvolutionChoices choose(/*seed=*/22);
  for (int i = 0; i < 25; ++i) ExpectExact(SomeDepthwise(&choose), choose.Between(1, 3));
}

TEST(ConvolutionKernelTest, ConvolutionsOfSequencesOfManyShapes) {
  ConvolutionChoices choose(/*seed=*/23);
  for (int i = 0; i < 25; ++i) ExpectExact(SomeConv1D(&choose), choose.Between(1, 3));
}

TEST(ConvolutionKernelTest, OnePixelOneChannelAndOneFilter) {
  ExpectExact({"conv2d { filters: 1 kernel_size: 1 }", {1, 1, 1}}, 1);
  ExpectExact({"conv2d { filters: 1 kernel_size: 3 padding: SAME }", {2, 2, 1}}, 1);
  ExpectExact({"conv2d { filters: 1 kernel_size: 3 padding: SAME }", {5, 4, 1}}, 2);
  ExpectExact({"depthwise_conv2d { kernel_size: 1 }", {1, 1, 5}}, 1);
  ExpectExact({"conv1d { filters: 1 kernel_size: 2 padding: CAUSAL }", {2, 1}}, 1);
}

// Most positions of the input are seen by no window.
TEST(ConvolutionKernelTest, StridesBeyondTheKernelAndTheImage) {
  ExpectExact({"conv2d { filters: 5 kernel_size: 1 strides: 2 }", {7, 6, 3}}, 2);
  ExpectExact({"conv2d { filters: 8 kernel_size: 2 strides: 5 padding: SAME }", {11, 12, 4}}, 2);
  ExpectExact({"conv2d { filters: 3 kernel_size: 2 strides: 50 }", {7, 6, 2}}, 2);
  ExpectExact({"depthwise_conv2d { kernel_size: 2 strides: 5 }", {11, 12, 4}}, 2);
}

// Taps at the kernel's border see one position each, of those at the image's.
TEST(ConvolutionKernelTest, DilationAsFarAsTheImage) {
  ExpectExact({"conv2d { filters: 4 kernel_size: 3 dilation_rate: 4 padding: SAME }", {5, 5, 4}},
              2);
  ExpectExact({"depthwise_conv2d { kernel_size: 3 dilation_rate: 4 padding: SAME }", {5, 5, 4}}, 2);
  ExpectExact({"conv1d { filters: 4 kernel_size: 3 dilation_rate: 4 padding: CAUSAL }", {9, 4}}, 2);
}

// Enough positions for each kind of tile, with channels by fours and without.
TEST(ConvolutionKernelTest, MoreThanATileAndMoreThanAPart) {
  for (const uint64_t odd : {0, 1}) {
    const auto layer = [&](int filters, const char* fields) {
      return absl::StrCat("conv2d { filters: ", filters - odd, " ", fields, " }");
    };
    ExpectExact({layer(36, "kernel_size: 3 padding: SAME"), {65, 63, 4 - odd}}, 5);
    ExpectExact({layer(12, "kernel_size: 2"), {65, 63, 20 - odd}}, 5);
    ExpectExact({layer(20, "kernel_size: 2"), {65, 63, 16 + odd}}, 5);
    ExpectExact({layer(20, "kernel_size: 2"), {65, 63, 20 - odd}}, 5);
    ExpectExact({layer(16, "kernel_size: 3 padding: SAME"), {33, 32, 16 - odd}}, 5);
    ExpectExact({layer(36, "kernel_size: 3 strides: 2 padding: SAME"), {64, 63, 36 - odd}}, 9);
  }
}

TEST(ConvolutionKernelTest, DepthwiseSumsInParts) {
  ExpectExact({"depthwise_conv2d { kernel_size: 3 padding: SAME }", {40, 41, 33}}, 3);
}

TEST(ConvolutionKernelTest, FunctionsWithinConvolutions) {
  for (const char* function : {"RELU", "SIGMOID", "SOFTMAX", "TANH", "RELU6", "ELU"}) {
    for (const Shape& input : {Shape{6, 5, 4}, Shape{6, 5, 3}}) {
      ExpectLikeCpu(
          MakeLayerCase(
              absl::StrCat("conv2d { filters: 4 kernel_size: 3 activation: ", function, " }"),
              {input}, 2),
          1e-5);
      ExpectLikeCpu(MakeLayerCase(absl::StrCat("depthwise_conv2d { kernel_size: 3 activation: ",
                                               function, " no_bias: true }"),
                                  {input}, 2),
                    1e-5);
    }
  }
}

TEST(ConvolutionKernelTest, NanPassesThroughRelu) {
  for (const char* kind : {"conv2d { filters: 3 kernel_size: 2 activation: RELU }",
                           "depthwise_conv2d { kernel_size: 2 activation: RELU }"}) {
    LayerCase c = MakeLayerCase(kind, {{4, 4, 3}}, 1);
    c.training = false;
    c.x[0][7] = std::numeric_limits<float>::quiet_NaN();
    ExpectLikeCpu(c, 1e-5);
  }
}

TEST(ConvolutionKernelTest, FrozenKernelsHaveNoGradients) {
  for (const char* kind :
       {"conv2d { filters: 5 kernel_size: 3 activation: TANH }",
        "conv2d { filters: 5 kernel_size: 1 }", "depthwise_conv2d { kernel_size: 3 }"}) {
    ExpectLikeCpu(MakeLayerCase(kind, {{6, 5, 4}}, 2, /*trainable=*/false), 1e-5);
  }
}

TEST(ConvolutionKernelTest, NobodyAsksForTheGradientByTheFirstInput) {
  for (const char* kind :
       {"conv2d { filters: 5 kernel_size: 3 }", "depthwise_conv2d { kernel_size: 3 }"}) {
    LayerCase c = MakeLayerCase(kind, {{6, 5, 4}}, 2);
    c.asked = {false};
    ExpectLikeCpu(c, 1e-5);
  }
}

// What an image gives does not depend on those beside it, nor on the tiles that are chosen for them
// all.
TEST(ConvolutionKernelTest, AnImageHasTheSameBitsInEveryBatch) {
  for (const auto& [kind, input] : std::vector<ConvolutionShape>{
           {"conv2d { filters: 36 kernel_size: [1, 2] padding: SAME }", {65, 63, 36}},
           {"conv2d { filters: 36 kernel_size: 2 strides: 2 }", {65, 63, 36}},
           {"conv2d { filters: 16 kernel_size: 3 padding: SAME }", {13, 32, 16}},
           {"depthwise_conv2d { kernel_size: 3 }", {65, 63, 36}}}) {
    const LayerCase many = MakeLayerCase(kind, {input}, 5);
    LayerCase one = MakeLayerCase(kind, {input}, 1);
    one.x[0].assign(many.x[0].begin(), many.x[0].begin() + one.x[0].size());
    one.parameters = many.parameters;
    one.dy.assign(many.dy.begin(), many.dy.begin() + one.dy.size());
    const LayerResult of_many = RunOnGpu(many);
    const LayerResult of_one = RunOnGpu(one);
    EXPECT_TRUE(std::equal(of_one.y.begin(), of_one.y.end(), of_many.y.begin())) << kind;
    EXPECT_TRUE(std::equal(of_one.dx[0].begin(), of_one.dx[0].end(), of_many.dx[0].begin()))
        << kind;
  }
}

// 3x3 pixels, with images of those widths that have kernels of their own (convolution_images.cu).
ConvolutionShape NeighboursOf(uint64_t height, uint64_t width, uint64_t channels, int filters) {
  return {absl::StrCat("conv2d { filters: ", filters,
                       " kernel_size: 3 padding: SAME activation: RELU }"),
          {height, width, channels}};
}

cuda::Windows WindowsOfNeighbours(int height, int width, int channels, int filters) {
  cuda::Windows windows;
  windows.rows = {height, height, /*size=*/3, /*stride=*/1, /*dilation=*/1, /*pad_before=*/1};
  windows.columns = windows.rows;
  windows.columns.input = windows.columns.output = width;
  windows.channels = channels;
  windows.filters = filters;
  return windows;
}

// Heights with and without a part of a tile, and channels on both sides of one tile's.
TEST(ConvolutionKernelTest, NeighboursOfImagesInSharedMemory) {
  ExpectExact(NeighboursOf(8, 32, 16, 16), 2);
  ExpectExact(NeighboursOf(9, 32, 16, 32), 1);
  ExpectExact(NeighboursOf(3, 32, 32, 16), 3);
  ExpectExact(NeighboursOf(16, 16, 32, 32), 1);
  ExpectExact(NeighboursOf(5, 16, 16, 32), 3);
  ExpectExact(NeighboursOf(11, 16, 32, 16), 1);
  ExpectExact(NeighboursOf(8, 8, 64, 64), 3);
  ExpectExact(NeighboursOf(3, 8, 32, 96), 1);
  ExpectExact(NeighboursOf(17, 8, 48, 32), 2);
}

TEST(ConvolutionKernelTest, NanOfAnImageInSharedMemoryPassesThroughRelu) {
  for (const size_t width : {8, 16, 32}) {
    const ConvolutionShape shape = NeighboursOf(8, width, 32, 32);
    LayerCase c = MakeLayerCase(shape.layer, {shape.input}, 1);
    c.training = false;
    c.x[0][7 * 32 + 5] = std::numeric_limits<float>::quiet_NaN();
    ExpectLikeCpu(c, 1e-5);
  }
}

// Convolves forwards and back, as far as these kernels take the shape.
bool ConvolvesImages(const cuda::Windows& windows,
                     cuda::Precision precision = cuda::Precision::kFloat32) {
  const size_t pixels = windows.output_positions();
  const std::unique_ptr<cuda::Gpu> gpu = OpenTestGpu();
  const auto zeros = [&](size_t count) { return OnDevice(gpu.get(), std::vector<float>(count)); };
  const auto x = zeros(windows.input_elements());
  const auto y = zeros(pixels * windows.filters);
  const auto kernel = zeros(windows.taps() * windows.channels * windows.filters);
  cuda::ConvolutionForward forward = {1, x->As(), kernel->As(), nullptr, false, y->As()};
  forward.precision = precision;
  cuda::InputGradient back = {1, y->As(), kernel->As(), x->As()};
  back.precision = precision;
  const bool forwards = cuda::ConvolveImages(nullptr, windows, forward);
  EXPECT_EQ(cuda::ConvolveImagesBack(nullptr, windows, back), forwards);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return forwards;
}

TEST(ConvolutionKernelTest, ImagesInSharedMemoryAreThoseOfSomeShapesInFloat32) {
  MILLRACE_NEEDS_EMULATION();
  EXPECT_TRUE(ConvolvesImages(WindowsOfNeighbours(7, 32, 16, 16)));
  EXPECT_TRUE(ConvolvesImages(WindowsOfNeighbours(7, 16, 32, 32)));
  EXPECT_TRUE(ConvolvesImages(WindowsOfNeighbours(7, 8, 64, 32)));
  for (const auto precision : {cuda::Precision::kTf32, cuda::Precision::kBfloat16}) {
    EXPECT_FALSE(ConvolvesImages(WindowsOfNeighbours(7, 32, 16, 16), precision));
  }
  EXPECT_FALSE(ConvolvesImages(WindowsOfNeighbours(7, 24, 16, 16)));
  EXPECT_FALSE(ConvolvesImages(WindowsOfNeighbours(7, 32, 24, 24)));
  cuda::Windows windows = WindowsOfNeighbours(7, 32, 32, 32);
  windows.rows.dilation = 2;
  windows.rows.pad_before = 2;
  EXPECT_FALSE(ConvolvesImages(windows));
  windows = WindowsOfNeighbours(7, 32, 32, 32);
  windows.rows.output = 5;
  windows.rows.pad_before = 0;
  EXPECT_FALSE(ConvolvesImages(windows));
  windows = WindowsOfNeighbours(7, 32, 32, 32);
  windows.rows.stride = 2;
  windows.rows.output = 4;
  EXPECT_FALSE(ConvolvesImages(windows));
  windows = WindowsOfNeighbours(7, 32, 32, 32);
  windows.groups = 2;
  EXPECT_FALSE(ConvolvesImages(windows));
}

// Convolves forwards, back and for the kernel, with everything `offset` floats behind where it is
// aligned.
std::vector<float> ConvolveAt(const cuda::Windows& windows, size_t offset) {
  constexpr size_t kImages = 2;
  const size_t x_size = kImages * windows.input_elements();
  const size_t y_size = kImages * windows.output_positions() * windows.filters;
  const size_t kernel_size = windows.taps() * windows.channels * windows.filters;
  std::mt19937 random(5);
  const auto numbers = [&](size_t count) {
    std::vector<float> values(offset + count);
    for (size_t i = offset; i < values.size(); ++i) values[i] = random() % 1000 / 1000.0f;
    return values;
  };
  const std::unique_ptr<cuda::Gpu> gpu = OpenTestGpu();
  const auto x = OnDevice(gpu.get(), numbers(x_size));
  const auto kernel = OnDevice(gpu.get(), numbers(kernel_size));
  const auto dy = OnDevice(gpu.get(), numbers(y_size));
  const auto results = OnDevice(gpu.get(), numbers(y_size + x_size + kernel_size));
  DeviceMemory workspace(gpu.get(), cuda::KernelGradientBytes(windows, kImages));
  float* const y = results->As() + offset;
  cuda::Convolve(nullptr, windows,
                 {kImages, x->As() + offset, kernel->As() + offset, nullptr, false, y});
  cuda::ConvolveBack(nullptr, windows,
                     {kImages, dy->As() + offset, kernel->As() + offset, y + y_size});
  cuda::SumKernelGradient(
      nullptr, windows,
      {kImages, x->As() + offset, dy->As() + offset, y + y_size + x_size, workspace.As<void>()});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<float> values = results->Values();
  return {values.begin() + offset, values.end()};
}

TEST(ConvolutionKernelTest, BitsDoNotDependOnHowMemoryIsAligned) {
  MILLRACE_NEEDS_EMULATION();
  cuda::Windows windows;
  windows.rows = {/*input=*/13,    /*output=*/7, /*size=*/3, /*stride=*/2, /*dilation=*/1,
                  /*pad_before=*/1};
  windows.columns = windows.rows;
  windows.channels = 8;
  windows.filters = 12;
  EXPECT_EQ(ConvolveAt(windows, 0), ConvolveAt(windows, 1));
  for (const int width : {8, 16, 32}) {
    windows = WindowsOfNeighbours(/*height=*/9, width, /*channels=*/32, /*filters=*/32);
    EXPECT_EQ(ConvolveAt(windows, 0), ConvolveAt(windows, 1)) << width;
  }
}

TEST(DivisorTest, QuotientsAreExact) {
  const std::vector<uint32_t> divisors = {1,
                                          2,
                                          3,
                                          5,
                                          7,
                                          9,
                                          10,
                                          100,
                                          641,
                                          65535,
                                          65536,
                                          65537,
                                          99991,
                                          1u << 30,
                                          (1u << 30) + 1,
                                          (1u << 31) - 1};
  for (const uint32_t number : divisors) {
    const cuda::Divisor divisor(number);
    for (const uint32_t other : divisors) {
      for (uint64_t n : {uint64_t{other} - 1, uint64_t{other}, uint64_t{other} * number - 1,
                         uint64_t{other} * number, (uint64_t{1} << 31) - other}) {
        n %= uint64_t{1} << 31;
        EXPECT_EQ(divisor.Quotient(static_cast<uint32_t>(n)), n / number) << n << " / " << number;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::worker
