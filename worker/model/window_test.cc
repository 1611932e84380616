#include "worker/model/window.h"

#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

void ExpectWindows(const WindowAxis& axis, uint64_t count, uint64_t before, uint64_t after) {
  EXPECT_EQ(axis.count, count);
  EXPECT_EQ(axis.pad_before, before);
  EXPECT_EQ(axis.pad_after, after);
}

TEST(WindowTest, ValidWindowsStayInside) {
  ExpectWindows(PlaceWindows(28, 3, 1, VALID), 26, 0, 0);
  ExpectWindows(PlaceWindows(7, 3, 3, VALID), 2, 0, 0);
  ExpectWindows(PlaceWindows(5, 5, 9, VALID), 1, 0, 0);
}

TEST(WindowTest, SameGivesOneWindowForEachStride) {
  ExpectWindows(PlaceWindows(28, 3, 1, SAME), 28, 1, 1);
  ExpectWindows(PlaceWindows(5, 3, 2, SAME), 3, 1, 1);
  ExpectWindows(PlaceWindows(6, 1, 3, SAME), 2, 0, 0);
}

TEST(WindowTest, SamePadsTheOddPositionAtTheEnd) {
  ExpectWindows(PlaceWindows(6, 3, 2, SAME), 3, 0, 1);
  ExpectWindows(PlaceWindows(5, 2, 1, SAME), 5, 0, 1);
  ExpectWindows(PlaceWindows(1, 4, 1, SAME), 1, 1, 2);
}

TEST(WindowTest, CausalWindowsEndWhereTheyAre) {
  ExpectWindows(PlaceWindows(8, 3, 1, CAUSAL), 8, 2, 0);
  ExpectWindows(PlaceWindows(8, 7, 3, CAUSAL), 3, 6, 0);
  ExpectWindows(PlaceWindows(5, 1, 9, CAUSAL), 1, 0, 0);
}

TEST(WindowTest, WindowsReachFromEndToEnd) {
  for (uint64_t size = 1; size < 12; ++size) {
    for (uint64_t window = 1; window <= size; ++window) {
      for (uint64_t stride = 1; stride < 6; ++stride) {
        const WindowAxis valid = PlaceWindows(size, window, stride, VALID);
        const uint64_t covered = (valid.count - 1) * stride + window;
        EXPECT_LE(covered, size);
        EXPECT_GT(covered + stride, size);
        const WindowAxis same = PlaceWindows(size, window, stride, SAME);
        EXPECT_EQ(same.count, (size + stride - 1) / stride);
        EXPECT_LE(same.pad_after - same.pad_before, 1u);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::worker
