#include "testing/digits/draw_digit.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "gtest/gtest.h"
#include "testing/digits/random.h"

namespace millrace::testing {
namespace {

DigitImage Draw(int digit, uint64_t seed) {
  Random random(seed);
  return DrawDigit(digit, &random);
}

TEST(DrawDigitTest, TheSameSeedDrawsTheSamePicture) {
  EXPECT_EQ(Draw(3, 17), Draw(3, 17));
  EXPECT_NE(Draw(3, 17), Draw(3, 18));
}

TEST(DrawDigitTest, PicturesAreMostlyPaperWithInkOnThem) {
  for (int digit = 0; digit < 10; ++digit) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const DigitImage image = Draw(digit, seed);
      const auto dark =
          std::count_if(image.begin(), image.end(), [](uint8_t v) { return v > 128; });
      EXPECT_GE(dark, 15) << digit << ", seed " << seed;
      EXPECT_LE(dark, 28 * 28 / 3) << digit << ", seed " << seed;
    }
  }
}

TEST(DrawDigitTest, DigitsStayOnThePaper) {
  // Ink on the outermost pixels is noise, or at times the end of a stroke.
  uint64_t edge = 0;
  uint64_t all = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const DigitImage image = Draw(static_cast<int>(seed % 10), seed);
    all += std::accumulate(image.begin(), image.end(), uint64_t{0});
    edge += std::accumulate(image.begin(), image.begin() + kDigitSide, uint64_t{0});
    edge += std::accumulate(image.end() - kDigitSide, image.end(), uint64_t{0});
  }
  EXPECT_LT(static_cast<double>(edge), 0.02 * static_cast<double>(all));
}

TEST(DrawDigitTest, DigitsDifferMoreFromEachOtherThanFromThemselves) {
  // Means over many pictures: positions and pens cancel out, shapes remain.
  std::array<std::array<double, kDigitSide * kDigitSide>, 10> means = {};
  constexpr int kPictures = 400;
  for (int digit = 0; digit < 10; ++digit) {
    for (uint64_t seed = 0; seed < kPictures; ++seed) {
      const DigitImage image = Draw(digit, seed);
      for (size_t i = 0; i < image.size(); ++i) means[digit][i] += image[i] / 255.0 / kPictures;
    }
  }
  for (int a = 0; a < 10; ++a) {
    for (int b = a + 1; b < 10; ++b) {
      double distance = 0;
      for (size_t i = 0; i < means[a].size(); ++i) {
        distance += (means[a][i] - means[b][i]) * (means[a][i] - means[b][i]);
      }
      EXPECT_GT(distance, 1.5) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace millrace::testing
