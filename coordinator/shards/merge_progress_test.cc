#include "coordinator/shards/merge_progress.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

ShardStatus Shard(uint32_t shard, uint64_t version, uint64_t watermark,
                  std::vector<uint64_t> above = {}, std::vector<uint64_t> held = {}) {
  ShardStatus status;
  status.set_shard(shard);
  status.set_version(version);
  status.mutable_applied()->set_watermark(watermark);
  for (uint64_t step : above) status.mutable_applied()->add_above(step);
  for (uint64_t step : held) status.mutable_held()->add_above(step);
  return status;
}

TEST(MergeProgressTest, DoneIsWhatEveryShardHas) {
  const std::vector<ShardStatus> shards = {Shard(0, 5, 3, {5, 7}), Shard(1, 6, 5, {7})};
  const auto merged = MergeProgress(shards);
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->done.watermark(), 3u);
  EXPECT_TRUE(merged->done.Contains(7));
  EXPECT_FALSE(merged->done.Contains(5));
  EXPECT_EQ(merged->frontier, 8u);
  EXPECT_EQ(merged->furthest, 0u);
}

TEST(MergeProgressTest, AsynchronousShardsMayBeFarApart) {
  const std::vector<ShardStatus> shards = {Shard(0, 2, 2), Shard(1, 900, 900)};
  const auto merged = MergeProgress(shards);
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->done.size(), 2u);
  EXPECT_EQ(merged->frontier, 900u);
  EXPECT_EQ(merged->furthest, 1u);
}

TEST(MergeProgressTest, HeldContributionsNeedNotBeComputedAgain) {
  const std::vector<ShardStatus> shards = {Shard(0, 1, 3, {}, {4, 5}), Shard(1, 1, 3, {}, {4})};
  const auto merged = MergeProgress(shards);
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->done.watermark(), 3u);
  EXPECT_TRUE(merged->done.Contains(4));
  EXPECT_FALSE(merged->done.Contains(5));
}

TEST(MergeProgressTest, NonsenseFromAShardIsAnError) {
  EXPECT_EQ(MergeProgress({Shard(4, 1, 3, {2})}).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace millrace::coordinator
