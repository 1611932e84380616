#include "coordinator/shards/cut_planner.h"

#include <vector>

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

std::vector<ShardStatus> At(uint64_t version, uint64_t other, uint64_t common = 0) {
  std::vector<ShardStatus> shards(2);
  shards[0].set_version(version);
  shards[1].set_version(other);
  for (ShardStatus& shard : shards) {
    if (common > 0) shard.add_cuts()->set_version(common);
  }
  return shards;
}

TEST(CutPlannerTest, VersionsBetweenCutsAreAPowerOfTwoWithinTheTarget) {
  struct Case {
    int version_ms;
    int target_ms;
    uint64_t versions;
  };
  for (const Case& c : std::vector<Case>{{0, 500, 1},
                                         {1000, 500, 1},
                                         {500, 500, 1},
                                         {250, 500, 2},
                                         {100, 500, 4},
                                         {1, 10'000, 8192}}) {
    EXPECT_EQ(EveryVersions(absl::Milliseconds(c.version_ms), absl::Milliseconds(c.target_ms)),
              c.versions)
        << c.version_ms << " ms";
  }
}

TEST(CutPlannerTest, FirstCutsComeSoonAndThenMoreRarelyUpToThePeriod) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(0, 0), /*catch_up=*/0, start);
  EXPECT_EQ(planner.Plan(3, start).every_versions(), 1u) << "what a version takes is not known";
  EXPECT_EQ(planner.Plan(3, start).generation(), 3u);
  planner.Observe(At(10, 11), start + absl::Seconds(1));  // 100 ms each.
  EXPECT_EQ(planner.Plan(3, start + absl::Seconds(1)).every_versions(), 8u);
  EXPECT_EQ(planner.Plan(3, start + absl::Seconds(2)).every_versions(), 16u);
  EXPECT_EQ(planner.Plan(3, start + absl::Hours(2)).every_versions(), 64u);
  EXPECT_EQ(planner.Plan(3, start).also_at(), 0u);
}

TEST(CutPlannerTest, OfTwoVersionsThatAreWantedTheNearerOneGoesFirst) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(3, 4), /*catch_up=*/50, start);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 50u);
  planner.Want(20);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 20u);
  planner.Observe(At(20, 21), start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 50u) << "all shards have passed the nearer one";
  planner.Want(60);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 50u);
  planner.Observe(At(50, 50), start + absl::Seconds(2));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 60u);
}

TEST(CutPlannerTest, VersionAheadIsOneThatNoShardHasBeforeItHearsOfIt) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(3, 4), 0, start);
  EXPECT_EQ(planner.VersionAhead(), 5u);
  planner.Observe(At(13, 14), start + absl::Seconds(1));  // 100 ms each.
  EXPECT_EQ(planner.VersionAhead(), 35u);
}

TEST(CutPlannerTest, CutThatIsReadStaysThoughNewerOnesAreCommon) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(30, 30, 20), 0, start);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 20u);
  CutName held;
  held.set_version(16);
  planner.Hold(held);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 16u);
  planner.Hold(absl::nullopt);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 20u);
  held.set_epoch(7);
  planner.Hold(held);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 20u) << "of another epoch";
}

TEST(CutPlannerTest, SlowCutsAreTakenLessOftenThanThePeriod) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(1));
  planner.Start(At(0, 0), 0, start);
  std::vector<ShardStatus> shards = At(10, 10);
  shards[1].mutable_cut_duration()->set_seconds(10);
  planner.Observe(shards, start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start + absl::Seconds(1)).every_versions(), 512u) << "51 s of 100 s";
}

TEST(CutPlannerTest, CutThatAllShardsHaveIsCommon) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(0, 0), 0, start);
  EXPECT_FALSE(planner.Plan(1, start).has_common());
  std::vector<ShardStatus> shards = At(20, 20, 8);
  shards[0].add_cuts()->set_version(16);
  planner.Observe(shards, start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start).common().version(), 8u);
  shards[1].add_cuts()->set_version(16);
  planner.Observe(shards, start + absl::Seconds(2));
  EXPECT_EQ(planner.Plan(1, start).common().version(), 16u);
}

TEST(CutPlannerTest, CutIsAskedForWhenAllHaveCaughtUp) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(32, 32, 32), /*catch_up=*/100, start);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 100u);
  planner.Observe(At(99, 101, 32), start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 100u) << "one shard has still to take it";
  planner.Observe(At(100, 101, 32), start + absl::Seconds(2));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 0u);
}

// Shards that leave out different cuts would have none in common for ever.
TEST(CutPlannerTest, OverdueCommonCutIsAskedForAheadOfAllShards) {
  absl::Time now = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(1));
  planner.Start(At(0, 0), 0, now);
  uint64_t version = 0;
  uint64_t asked = 0;
  for (int i = 0; i < 100 && asked == 0; ++i) {
    now += absl::Seconds(1);
    version += 10;
    planner.Observe(At(version, version + 1), now);
    asked = planner.Plan(1, now).also_at();
  }
  EXPECT_GT(asked, version + 10);
  EXPECT_LT(asked, version + 40);
  planner.Observe(At(version + 5, version + 6), now + absl::Milliseconds(500));
  EXPECT_EQ(planner.Plan(1, now).also_at(), asked) << "it stays until it is reached";
}

}  // namespace
}  // namespace millrace::coordinator
