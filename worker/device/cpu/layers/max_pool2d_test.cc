// What Keras's values in reference_test do not show: ties and NaN.
#include "worker/device/cpu/layers/max_pool2d.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

// Windows of 2 x 2 over an image of 3 x 3 with 2 channels.
ImageWindow WindowOf(Padding padding) {
  ImageWindow window;
  window.input = {3, 3, 2};
  window.output = padding == SAME ? Shape{2, 2, 2} : Shape{1, 1, 2};
  window.size = {2, 2};
  window.strides = {2, 2};
  window.padding = padding;
  return window;
}

CpuPass OneExample() {
  static float kept[8];
  CpuPass pass;
  pass.batch = 1;
  pass.kept = kept;
  return pass;
}

TEST(MaxPool2DTest, FirstOfEqualValuesTakesTheGradient) {
  MaxPool2DLayer layer(WindowOf(VALID));
  const std::vector<float> x = {1, 7, 5, 7, 0, 0, 5, 7, 5, 7, 0, 0, 9, 9, 9, 9, 9, 9};
  float y[2];
  layer.Forward(OneExample(), x.data(), y);
  EXPECT_THAT(y, ElementsAre(5, 7));
  float dy[2] = {3, 4};
  std::vector<float> dx(x.size(), -1);
  layer.Backward(OneExample(), x.data(), y, dy, dx.data());
  EXPECT_THAT(dx, ElementsAre(0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(MaxPool2DTest, PaddingNeverWins) {
  MaxPool2DLayer layer(WindowOf(SAME));
  const std::vector<float> x(18, -5.0f);
  float y[8];
  layer.Forward(OneExample(), x.data(), y);
  EXPECT_THAT(y, ElementsAre(-5, -5, -5, -5, -5, -5, -5, -5));
}

TEST(MaxPool2DTest, NanIsTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  MaxPool2DLayer layer(WindowOf(VALID));
  for (const size_t pixel : {0, 1, 3, 4}) {
    std::vector<float> x(18, 2.0f);
    x[2 * pixel] = nan;
    float y[2];
    layer.Forward(OneExample(), x.data(), y);
    EXPECT_TRUE(std::isnan(y[0])) << pixel;
    EXPECT_EQ(y[1], 2);
  }
}

}  // namespace
}  // namespace millrace::worker
