#include "coordinator/shards/remake_plan.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/shards/placements_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;

// "d1:drop" of a shard that is to be dropped first, "d1:make", or "d1".
std::vector<std::string> Describe(const std::vector<ShardPlacement>& shards) {
  std::vector<std::string> all;
  for (const ShardPlacement& shard : shards) {
    const char* const making[] = {"", ":drop", ":make"};
    all.push_back(
        absl::StrCat(shard.directory_id(), making[shard.making()],
                     shard.has_restore() ? absl::StrCat("@", shard.restore().checkpoint()) : ""));
  }
  return all;
}

ShardRestore Checkpoint(uint64_t number) {
  ShardRestore restore;
  restore.set_checkpoint(number);
  return restore;
}

const std::vector<TargetServer> kTwoServers = {{"d0", "ps-0", "a:1", 100},
                                               {"d9", "ps-9", "a:2", 0}};

TEST(RemakePlanTest, OnlyWhatIsLostIsMadeAgainAndMovesWhereLeastIsHeld) {
  const auto shards = PlaceAgain(ShardsIn({"d0", "d1", "d2"}), {false, true, true},
                                 {false, true, true}, Checkpoint(17), kTwoServers);
  EXPECT_THAT(Describe(shards), ElementsAre("d0", "d9:drop@17", "d9:drop@17"));
  EXPECT_EQ(shards[1].server(), "ps-9");
  EXPECT_EQ(shards[1].address(), "a:2");
  EXPECT_EQ(DescribeRemade(shards), "shards 1, 2");
}

TEST(RemakePlanTest, WhatIsMadeAgainWithoutALossStaysWhereItIs) {
  const auto shards =
      PlaceAgain(ShardsIn({"d0", "d1"}), {true, true}, {false, true}, Checkpoint(17), kTwoServers);
  EXPECT_THAT(Describe(shards), ElementsAre("d0:drop@17", "d9:drop@17"));
  EXPECT_EQ(DescribeRemade(shards), "all shards");
}

// What was made from one checkpoint must not stay beside what comes from another one.
TEST(RemakePlanTest, WhatWasToBeMadeBeforeIsDroppedAndMadeFromTheSameCheckpoint) {
  auto shards = ShardsIn({"d0", "d1", "d2"});
  shards[1].set_making(ShardPlacement::TO_BE_MADE);
  *shards[1].mutable_restore() = Checkpoint(18);
  shards =
      PlaceAgain(shards, {false, false, true}, {false, false, true}, Checkpoint(17), kTwoServers);
  EXPECT_THAT(Describe(shards), ElementsAre("d0", "d1:drop@17", "d9:drop@17"));
}

// Reading it once more would take as long, and bring the same.
TEST(RemakePlanTest, WhatIsBeingMadeOfTheSameCheckpointIsLeftAlone) {
  auto shards = ShardsIn({"d0", "d1", "d2"});
  for (ShardPlacement& shard : shards) {
    shard.set_making(ShardPlacement::TO_BE_MADE);
    *shard.mutable_restore() = Checkpoint(17);
  }
  shards =
      PlaceAgain(shards, {true, true, true}, {false, false, true}, Checkpoint(17), kTwoServers);
  EXPECT_THAT(Describe(shards), ElementsAre("d0:make@17", "d1:make@17", "d9:drop@17"));
}

}  // namespace
}  // namespace millrace::coordinator
