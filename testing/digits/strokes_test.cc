#include "testing/digits/strokes.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

namespace millrace::testing {
namespace {

TEST(StrokesTest, EachDigitHasStylesThatFillTheSquare) {
  for (int digit = 0; digit < 10; ++digit) {
    EXPECT_GE(StylesOf(digit).size(), 3u) << digit;
    for (const Style& style : StylesOf(digit)) {
      double top = 1;
      double bottom = 0;
      for (const Stroke& stroke : style) {
        for (const Point& point : stroke) {
          EXPECT_GE(point.x, 0.05) << digit;
          EXPECT_LE(point.x, 0.95) << digit;
          top = std::min(top, point.y);
          bottom = std::max(bottom, point.y);
        }
      }
      EXPECT_GE(top, 0.05) << digit;
      EXPECT_LE(bottom, 0.95) << digit;
      EXPECT_GE(bottom - top, 0.7) << digit;
    }
  }
}

TEST(StrokesTest, PointsStandCloseEnoughToBend) {
  for (int digit = 0; digit < 10; ++digit) {
    for (const Style& style : StylesOf(digit)) {
      for (const Stroke& stroke : style) {
        ASSERT_GE(stroke.size(), 2u) << digit;
        for (size_t i = 1; i < stroke.size(); ++i) {
          EXPECT_LE(std::hypot(stroke[i].x - stroke[i - 1].x, stroke[i].y - stroke[i - 1].y), 0.15)
              << digit;
        }
      }
    }
  }
}

TEST(StrokesDeathTest, OtherNumbersAreNoDigits) { EXPECT_DEATH(StylesOf(10), "10"); }

}  // namespace
}  // namespace millrace::testing
