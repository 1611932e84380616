#include "coordinator/shards/move_plan.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/shards/placements_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;

// "0>d1" of each shard that moves.
std::vector<std::string> DescribeMoves(const std::vector<ShardMove>& moves) {
  std::vector<std::string> all;
  for (const ShardMove& move : moves) {
    all.push_back(absl::StrCat(move.shard, ">", move.to.directory_id));
  }
  return all;
}

std::vector<ShardMove> MovesFrom(const std::string& left, const std::vector<ShardPlacement>& shards,
                                 const std::vector<TargetServer>& servers, bool rebalances) {
  return PlanMoves(
      shards, [&left](const std::string& directory) { return directory == left; }, servers,
      rebalances);
}

TEST(MovePlanTest, ShardsLeaveForThoseThatHoldLeast) {
  const auto shards = ShardsIn({"d1", "d0", "d1", "d1"});
  const std::vector<TargetServer> servers = {{"d0", "ps-0", "a:1", 10}, {"d2", "ps-2", "a:2", 0}};
  EXPECT_THAT(DescribeMoves(MovesFrom("d1", shards, servers, false)),
              ElementsAre("0>d2", "2>d0", "3>d2"));
  EXPECT_THAT(MovesFrom("d1", shards, {}, true), ElementsAre());
  EXPECT_THAT(MovesFrom("d7", shards, servers, false), ElementsAre());
}

TEST(MovePlanTest, ServersAreBalancedAsFarAsThatHelps) {
  const auto shards = ShardsIn({"d0", "d0", "d0", "d0", "d1"});
  const std::vector<TargetServer> servers = {
      {"d0", "ps-0", "a:0", 40}, {"d1", "ps-1", "a:1", 10}, {"d2", "ps-2", "a:2", 0}};
  EXPECT_THAT(DescribeMoves(MovesFrom("", shards, servers, true)), ElementsAre("0>d2", "1>d1"))
      << "20, 20 and 10 then: another move would only change who holds how much";
  EXPECT_THAT(DescribeMoves(MovesFrom("d1", shards, {servers[0], servers[2]}, true)),
              ElementsAre("4>d2", "0>d2"));
}

TEST(MovePlanTest, WhatOtherJobsHoldCounts) {
  const auto shards = ShardsIn({"d0", "d0"});
  EXPECT_THAT(MovesFrom("", shards, {{"d0", "ps-0", "a:0", 20}, {"d1", "ps-1", "a:1", 15}}, true),
              ElementsAre());
}

}  // namespace
}  // namespace millrace::coordinator
