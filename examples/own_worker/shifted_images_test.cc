#include "examples/own_worker/shifted_images.h"

#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::examples {
namespace {

using ::testing::ElementsAre;

std::vector<float> Shifted(int down, int right) {
  const std::vector<float> image = {1, 2, 3,  //
                                    4, 5, 6};
  std::vector<float> shifted(image.size(), -1);
  ShiftImage(image, /*columns=*/3, {down, right}, absl::MakeSpan(shifted));
  return shifted;
}

TEST(ShiftedImagesTest, ShiftMovesTheImageAndFillsUpWithZeros) {
  EXPECT_THAT(Shifted(0, 0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Shifted(1, 0), ElementsAre(0, 0, 0, 1, 2, 3));
  EXPECT_THAT(Shifted(-1, 1), ElementsAre(0, 4, 5, 0, 0, 0));
  EXPECT_THAT(Shifted(0, -2), ElementsAre(3, 0, 0, 6, 0, 0));
}

TEST(ShiftedImagesTest, ShiftFollowsFromTheStepAndTheRow) {
  std::set<std::pair<int, int>> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (size_t row = 0; row < 20; ++row) {
      const Shift shift = ShiftOf(seed << 40, row, /*most=*/2);
      const Shift again = ShiftOf(seed << 40, row, /*most=*/2);
      EXPECT_EQ(std::make_pair(shift.down, shift.right), std::make_pair(again.down, again.right));
      EXPECT_LE(std::abs(shift.down), 2);
      EXPECT_LE(std::abs(shift.right), 2);
      seen.emplace(shift.down, shift.right);
    }
  }
  EXPECT_EQ(seen.size(), 25u);
}

}  // namespace
}  // namespace millrace::examples
