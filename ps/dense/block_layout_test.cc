#include "ps/dense/block_layout.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::HasSubstr;

BlockLayout MakeLayout(const std::vector<uint64_t>& lengths) {
  ShardSpec spec;
  for (const uint64_t length : lengths) spec.add_slices()->mutable_slice()->set_length(length);
  return *BlockLayout::Create(spec);
}

TEST(ShardLayoutTest, SlicesAreDividedIntoBlocksOfTheirOwn) {
  const BlockLayout layout = MakeLayout({2 * kBlockElements + 1, 5});
  EXPECT_EQ(layout.elements(), 2 * kBlockElements + 6);
  ASSERT_EQ(layout.blocks().size(), 4);
  EXPECT_EQ(layout.blocks()[2].elements, 1);
  EXPECT_EQ(layout.blocks()[2].offset, 2 * kBlockElements);
  EXPECT_EQ(layout.blocks()[3].slice, 1);
  EXPECT_EQ(layout.blocks()[3].offset, 0);
}

TEST(ShardLayoutTest, RunsEndWithTheirBlock) {
  const BlockLayout layout = MakeLayout({3, 2 * kBlockElements});
  const BlockLayout::Run run = layout.FirstRun(/*slice=*/1, kBlockElements - 2, 10);
  EXPECT_EQ(run.block, 1);
  EXPECT_EQ(run.offset, kBlockElements - 2);
  EXPECT_EQ(run.count, 2);
  EXPECT_EQ(layout.FirstRun(/*slice=*/1, kBlockElements, 8).block, 2);
  EXPECT_EQ(layout.FirstRun(/*slice=*/1, kBlockElements, 8).count, 8);
}

TEST(ShardLayoutTest, FrozenSlicesHaveBlocksAndAreNotPushed) {
  ShardSpec spec;
  for (const uint64_t length : {4, 6, 5}) spec.add_slices()->mutable_slice()->set_length(length);
  spec.mutable_slices(1)->mutable_update()->mutable_frozen();
  const BlockLayout layout = *BlockLayout::Create(spec);
  EXPECT_EQ(layout.elements(), 15);
  EXPECT_EQ(layout.pushed_elements(), 9);
  ASSERT_EQ(layout.blocks().size(), 3);
  EXPECT_FALSE(layout.blocks()[0].frozen);
  EXPECT_TRUE(layout.blocks()[1].frozen);
  EXPECT_EQ(*layout.Locate(2, 1, 4), 5);
  EXPECT_EQ(layout.Locate(1, 0, 1).status(),
            absl::InvalidArgumentError(
                "piece.slice: 1; it is frozen: nothing of it is pushed, leave it out"));
}

TEST(ShardLayoutTest, PlacesOutsideOfSlicesAreRefused) {
  const BlockLayout layout = MakeLayout({4, 6});
  EXPECT_EQ(*layout.Locate(1, 2, 4), 6);
  EXPECT_EQ(*layout.Locate(1, 6, 0), 10);
  EXPECT_THAT(std::string(layout.Locate(2, 0, 1).status().message()), HasSubstr("2 slices"));
  EXPECT_THAT(std::string(layout.Locate(0, 1, 4).status().message()), HasSubstr("has 4 elements"));
  EXPECT_FALSE(layout.Locate(0, ~uint64_t{0}, 2).ok());
  EXPECT_FALSE(layout.Locate(0, 2, ~uint64_t{0}).ok());
}

}  // namespace
}  // namespace millrace::ps
