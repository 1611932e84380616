#include "ps/shard/cut_plan.h"

#include <memory>

#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

StatePtr AtVersion(uint64_t version) {
  auto state = std::make_shared<ShardState>();
  state->version = version;
  return state;
}

TEST(CutPlanTest, RegularVersionsAreCapturedOneAtATime) {
  CutPlan plan;
  plan.Set(/*every_versions=*/4, /*also_at=*/0);
  EXPECT_FALSE(plan.Published(0, AtVersion(3)));
  EXPECT_TRUE(plan.Published(0, AtVersion(4)));
  EXPECT_FALSE(plan.Published(0, AtVersion(8))) << "the one before is not taken yet";
  EXPECT_EQ(plan.Take()->state->version, 4);
  plan.Allow(true);
  EXPECT_TRUE(plan.Published(0, AtVersion(12)));
}

// One that was published just then was written as well, one cut more than the disk is to hold.
TEST(CutPlanTest, AfterOneIsTakenNoRegularOneIsCapturedUntilThereIsRoom) {
  CutPlan plan;
  plan.Set(/*every_versions=*/4, /*also_at=*/10);
  plan.Published(0, AtVersion(4));
  EXPECT_TRUE(plan.Take().has_value());
  EXPECT_FALSE(plan.Published(0, AtVersion(8)));
  EXPECT_FALSE(plan.Take().has_value());
  EXPECT_TRUE(plan.Published(0, AtVersion(10))) << "it is asked for";
}

// It was left out while a regular one waited, and the shards had no cut in common.
TEST(CutPlanTest, VersionThatIsAskedForIsNeverLeftOut) {
  CutPlan plan;
  plan.Set(/*every_versions=*/4, /*also_at=*/6);
  plan.Allow(false);
  EXPECT_FALSE(plan.Published(0, AtVersion(4)));
  plan.Allow(true);
  plan.Published(0, AtVersion(4));
  EXPECT_TRUE(plan.Published(0, AtVersion(6)));
  EXPECT_EQ(plan.Take()->state->version, 6);
  EXPECT_FALSE(plan.Take().has_value());
}

}  // namespace
}  // namespace millrace::ps
