#include "coordinator/checkpoint/checkpoint_answers.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

ShardStatus WithCuts(const std::vector<std::pair<uint64_t, uint64_t>>& cuts) {
  ShardStatus shard;
  for (const auto& [epoch, version] : cuts) {
    CutName& cut = *shard.add_cuts();
    cut.set_epoch(epoch);
    cut.set_version(version);
  }
  return shard;
}

CutName Cut(uint64_t epoch, uint64_t version) {
  CutName cut;
  cut.set_epoch(epoch);
  cut.set_version(version);
  return cut;
}

WriteCheckpointResponse Answer(uint32_t shard, uint64_t watermark,
                               const std::vector<uint64_t>& above = {}) {
  WriteCheckpointResponse answer;
  answer.mutable_shard()->set_shard(shard);
  answer.mutable_shard()->set_epoch(2);
  answer.mutable_shard()->set_version(watermark);
  answer.mutable_shard()->mutable_applied()->set_watermark(watermark);
  for (const uint64_t step : above) answer.mutable_shard()->mutable_applied()->add_above(step);
  answer.mutable_shard()->set_bytes(100);
  answer.mutable_shard()->set_bytes_written(10 + shard);
  answer.set_extra_memory(7 * (shard + 1));
  return answer;
}

TEST(OldestCommonCutTest, IsOneOfTheEpochThatAllShardsHave) {
  const std::vector<ShardStatus> shards = {WithCuts({{0, 0}, {1, 8}, {2, 8}, {2, 16}, {2, 24}}),
                                           WithCuts({{0, 0}, {1, 8}, {2, 16}, {2, 24}, {2, 32}})};
  EXPECT_EQ(OldestCommonCut(shards, 2, 8)->version(), 16u);
  EXPECT_EQ(OldestCommonCut(shards, 2, 16)->version(), 16u);
  EXPECT_EQ(OldestCommonCut(shards, 2, 17)->version(), 24u);
  EXPECT_FALSE(OldestCommonCut(shards, 2, 25));
  EXPECT_EQ(OldestCommonCut(shards, 1, 3)->version(), 8u);
  EXPECT_FALSE(OldestCommonCut(shards, 3, 0));
}

TEST(MergeAnswersTest, AsynchronousShardsMayDifferInWhatTheyHave) {
  const auto state = MergeAnswers({Answer(0, 17, {19}), Answer(1, 15)}, {}, {});
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->step, 15u);
  EXPECT_FALSE(state->exact);
  EXPECT_EQ(state->bytes, 200u);
  EXPECT_EQ(state->bytes_written, 21u);
}

// It was that of the largest shard.
TEST(MergeAnswersTest, TheShardsOfAServerUseItsMemoryTogether) {
  const std::vector<WriteCheckpointResponse> answers = {Answer(0, 17), Answer(1, 17),
                                                        Answer(2, 17)};
  EXPECT_EQ(MostExtraMemory(answers, {"a", "b", "c"}), 21u);
  EXPECT_EQ(MostExtraMemory(answers, {"a", "b", "a"}), 28u);
}

TEST(MergeAnswersTest, WhatHappensToBeOneStateIsExact) {
  EXPECT_TRUE(MergeAnswers({Answer(0, 17), Answer(1, 17)}, {}, {})->exact);
  EXPECT_FALSE(MergeAnswers({Answer(0, 17, {19}), Answer(1, 17, {19})}, {}, {})->exact);
}

TEST(MergeAnswersTest, AnswersThatAreNotWhatWasAskedForAreNoCheckpoint) {
  EXPECT_THAT(std::string(MergeAnswers({Answer(0, 17), Answer(2, 17)}, {}, {}).status().message()),
              HasSubstr("shard 1 was asked, and shard 2 answered"));
  EXPECT_THAT(
      std::string(
          MergeAnswers({Answer(0, 17), Answer(1, 17, {18})}, {}, uint64_t{17}).status().message()),
      HasSubstr("shard 1 wrote the steps before 17 and 1 more, not exactly those before 17"));
  EXPECT_THAT(
      std::string(MergeAnswers({Answer(0, 17), Answer(1, 16)}, Cut(2, 17), {}).status().message()),
      HasSubstr("shard 1 wrote version 16 of epoch 2, not version 17 of epoch 2"));
  EXPECT_FALSE(MergeAnswers({Answer(0, 17)}, Cut(3, 17), {}).ok());
  WriteCheckpointResponse other = Answer(1, 17);
  other.mutable_shard()->mutable_applied()->set_watermark(16);
  EXPECT_THAT(std::string(MergeAnswers({Answer(0, 17), other}, Cut(2, 17), {}).status().message()),
              HasSubstr("differ in the steps"));
}

}  // namespace
}  // namespace millrace::coordinator
