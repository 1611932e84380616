#include "common/steps_per_epoch.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(StepsPerEpochTest, LastStepTakesWhatIsLeft) {
  EXPECT_EQ(StepsPerEpoch(8, 4), 2u);
  EXPECT_EQ(StepsPerEpoch(9, 4), 3u);
  EXPECT_EQ(StepsPerEpoch(11, 4), 3u);
  EXPECT_EQ(StepsPerEpoch(7, 1), 7u);
}

TEST(StepsPerEpochTest, BatchLargerThanTheDataIsOneStep) {
  EXPECT_EQ(StepsPerEpoch(1, 64), 1u);
  EXPECT_EQ(StepsPerEpoch(63, 64), 1u);
  EXPECT_EQ(StepsPerEpoch(64, 64), 1u);
}

TEST(StepsPerEpochTest, WithoutExamplesThereAreNoSteps) {
  EXPECT_EQ(StepsPerEpoch(0, 1), 0u);
  EXPECT_EQ(StepsPerEpoch(0, 64), 0u);
}

TEST(StepsPerEpochTest, AsManyExamplesAsCanBeCountedDoNotOverflow) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(StepsPerEpoch(kMost, 1), kMost);
  EXPECT_EQ(StepsPerEpoch(kMost, 2), kMost / 2 + 1);
  EXPECT_EQ(StepsPerEpoch(kMost, kMost - 1), 2u);
  EXPECT_EQ(StepsPerEpoch(1, kMost), 1u);
}

}  // namespace
}  // namespace millrace
