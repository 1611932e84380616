#include "coordinator/shards/attach_decision.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;

struct ShardSketch {
  uint64_t epoch = 0;
  uint64_t version = 0;
  bool has_previous = true;
  std::vector<std::pair<uint64_t, uint64_t>> cuts = {};
};

std::vector<ShardStatus> Make(const std::vector<ShardSketch>& sketches) {
  std::vector<ShardStatus> shards;
  for (const ShardSketch& sketch : sketches) {
    ShardStatus& shard = shards.emplace_back();
    shard.set_shard(shards.size() - 1);
    shard.set_epoch(sketch.epoch);
    shard.set_version(sketch.version);
    shard.set_has_previous(sketch.has_previous);
    for (const auto& [epoch, version] : sketch.cuts) {
      CutName& cut = *shard.add_cuts();
      cut.set_epoch(epoch);
      cut.set_version(version);
    }
  }
  return shards;
}

struct Case {
  const char* name;
  std::vector<ShardSketch> shards;
  bool step_back = false;
  std::pair<uint64_t, uint64_t> cut = {};
  uint64_t epoch = 0;
};

TEST(AttachDecisionTest, ShardsGoOnOrStepBackToTheNewestCommonCut) {
  const std::vector<Case> cases = {
      {"one shard, wherever it is", {{0, 7, false}}},
      {"all alike", {{2, 9}, {2, 9, false}}},
      {"one is behind, the other has the version before", {{0, 8, false}, {0, 9, true}}},
      {"one is behind, the other has it not",
       {{0, 8, false, {{0, 8}}}, {0, 9, false, {{0, 4}, {0, 9}}}},
       true,
       {0, 0},
       1},
      {"both were killed",
       {{0, 64, false, {{0, 32}, {0, 64}}}, {0, 32, false, {{0, 32}}}},
       true,
       {0, 32},
       1},
      {"one is far behind", {{0, 0, false}, {0, 40, true, {{0, 32}}}}, true, {0, 0}, 1},
      {"one stepped back, the other was lost before it could",
       {{3, 32, false, {{1, 32}}}, {2, 33, true, {{1, 32}, {2, 33}}}},
       true,
       {1, 32},
       4},
      {"the newest epoch's cut is the newest",
       {{5, 99, true, {{0, 8}, {4, 16}, {5, 24}}}, {5, 24, false, {{0, 8}, {4, 16}, {5, 24}}}},
       true,
       {5, 24},
       6},
      {"cuts of one version of two epochs are two cuts",
       {{2, 50, true, {{0, 8}, {1, 32}}}, {2, 32, false, {{0, 8}, {2, 32}}}},
       true,
       {0, 8},
       3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const AttachDecision decision = DecideAttach(Make(c.shards), /*replicas=*/2);
    EXPECT_EQ(decision.step_back, c.step_back) << decision.why;
    EXPECT_EQ(decision.why.empty(), !c.step_back);
    if (!c.step_back) continue;
    EXPECT_EQ(decision.cut.epoch(), c.cut.first);
    EXPECT_EQ(decision.cut.version(), c.cut.second);
    EXPECT_EQ(decision.epoch, c.epoch);
  }
}

// Of a job that was restored at step 1000, at version 10: of an earlier one, with other replicas.
TEST(AttachDecisionTest, StepsOfTheCutFollowFromAShardThatHasItAndMore) {
  std::vector<ShardStatus> shards =
      Make({{0, 17, false, {{0, 12}}}, {0, 12, false, {{0, 12}}}, {0, 17, false, {{0, 12}}}});
  shards[0].mutable_applied()->set_watermark(1014);
  shards[1].mutable_applied()->set_watermark(1004);
  EXPECT_EQ(DecideAttach(shards, /*replicas=*/2).steps, 1004u);
  std::swap(shards[0], shards[1]);
  EXPECT_EQ(DecideAttach(shards, /*replicas=*/2).steps, 1004u);
  shards[0].clear_cuts();
  EXPECT_EQ(DecideAttach(shards, /*replicas=*/2).steps, 0u) << "the initial values";
}

TEST(AttachDecisionTest, AsynchronousShardsGoOnHoweverFarApart) {
  EXPECT_FALSE(DecideAttach(Make({{0, 2, false}, {0, 900, false}}), /*replicas=*/0).step_back);
}

TEST(AttachDecisionTest, WhatAServerAnswersIsTriedAgainOrEndsTheJob) {
  EXPECT_EQ(DecideReach(absl::OkStatus(), 0), ReachAction::kReached);
  EXPECT_EQ(DecideReach(absl::UnavailableError(""), 1000), ReachAction::kRetry);
  EXPECT_EQ(DecideReach(absl::DeadlineExceededError(""), 1000), ReachAction::kRetry);
  EXPECT_EQ(DecideReach(absl::NotFoundError(""), 0), ReachAction::kRetry);
  EXPECT_EQ(DecideReach(absl::NotFoundError(""), 1000), ReachAction::kGiveUp);
  EXPECT_EQ(DecideReach(absl::ResourceExhaustedError(""), 0), ReachAction::kRetry);
  EXPECT_EQ(DecideReach(absl::ResourceExhaustedError(""), 1000), ReachAction::kRetry);
  EXPECT_EQ(DecideReach(absl::FailedPreconditionError(""), 0), ReachAction::kAskWhoIsNew);
  EXPECT_EQ(DecideReach(absl::DataLossError(""), 0), ReachAction::kGiveUp);
  EXPECT_EQ(DecideReach(absl::InvalidArgumentError(""), 0), ReachAction::kGiveUp);
}

// A call to step back that was thought lost arrived before its repetition, and the job failed.
TEST(AttachDecisionTest, RefusedStepBackIsTriedAgainButNotForEver) {
  const absl::Status refusal = AsStepBackRefusal(absl::InvalidArgumentError("epoch: 2"));
  EXPECT_TRUE(IsRefusal(refusal));
  EXPECT_NE(DecideReach(refusal, 0), ReachAction::kGiveUp);
  EXPECT_EQ(DecideReach(refusal, 1000), ReachAction::kGiveUp);
  EXPECT_EQ(AsStepBackRefusal(absl::DataLossError("")), absl::DataLossError(""));
}

TEST(AttachDecisionTest, GenerationsGoOnAboveThoseThatSomebodyElseHasSet) {
  std::vector<ShardStatus> shards = Make({{}, {}});
  EXPECT_EQ(NextGeneration(shards, 5).value(), 6u);
  shards[1].set_generation(77);
  EXPECT_EQ(NextGeneration(shards, 5).value(), 78u);
  shards[1].set_generation(kGenerationLimit - 1);
  const auto none = NextGeneration(shards, 5);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("shard 1 is at generation 4294967295"));
}

ShardStatus WithSteps(uint64_t watermark, std::vector<uint64_t> above = {},
                      std::vector<uint64_t> held = {}) {
  ShardStatus status;
  status.mutable_applied()->set_watermark(watermark);
  for (uint64_t step : above) status.mutable_applied()->add_above(step);
  for (uint64_t step : held) status.mutable_held()->add_above(step);
  return status;
}

// A version whose last contribution was being computed was once taken for an applied one.
TEST(AttachDecisionTest, BarrierIsReachedWhenExactlyTheStepsBeforeItAreApplied) {
  EXPECT_EQ(StateAtBarrier(WithSteps(8), 8), BarrierState::kReached);
  EXPECT_EQ(StateAtBarrier(WithSteps(4, {}, {4, 5, 6, 7}), 8), BarrierState::kBeingApplied);
  EXPECT_EQ(StateAtBarrier(WithSteps(4, {}, {4, 6, 7}), 8), BarrierState::kMissing);
  EXPECT_EQ(StateAtBarrier(WithSteps(4, {5, 6, 7}), 8), BarrierState::kMissing);
  EXPECT_EQ(StateAtBarrier(WithSteps(9), 8), BarrierState::kBeyond);
  EXPECT_EQ(StateAtBarrier(WithSteps(8, {9}), 8), BarrierState::kBeyond);
  EXPECT_EQ(StateAtBarrier(WithSteps(4, {6, 8}), 8), BarrierState::kBeyond);
  EXPECT_EQ(StateAtBarrier(WithSteps(0), 8), BarrierState::kMissing);
  const BarrierCheck check = CheckBarrier({WithSteps(8), WithSteps(0)}, 8);
  EXPECT_EQ(check.state, BarrierState::kMissing);
}

TEST(AttachDecisionTest, ShardsAreTogetherInOneStateWithoutContributions) {
  std::vector<ShardStatus> shards = Make({{1, 9}, {1, 9}});
  for (ShardStatus& shard : shards) shard.mutable_applied()->set_watermark(18);
  EXPECT_TRUE(CheckTogether(shards).ok());
  const auto check_with = [&shards](const auto& change) {
    std::vector<ShardStatus> changed = shards;
    change(changed[1]);
    return CheckTogether(changed).code();
  };
  EXPECT_EQ(check_with([](ShardStatus& shard) { shard.set_epoch(2); }), absl::StatusCode::kAborted);
  EXPECT_EQ(check_with([](ShardStatus& shard) { shard.set_version(8); }),
            absl::StatusCode::kAborted);
  EXPECT_EQ(check_with([](ShardStatus& shard) { shard.mutable_applied()->add_above(20); }),
            absl::StatusCode::kAborted);
  EXPECT_EQ(check_with([](ShardStatus& shard) { shard.mutable_held()->add_above(18); }),
            absl::StatusCode::kAborted);
  shards[0].mutable_held()->set_watermark(1);
  EXPECT_FALSE(CheckTogether(shards).ok());
}

TEST(AttachDecisionTest, LostStepsAreThoseThatWereThereBefore) {
  AppliedSet before;
  for (uint64_t step : {0, 1, 2, 5}) before.Insert(step);
  AppliedSet after;
  for (uint64_t step : {0, 1, 3, 4}) after.Insert(step);
  EXPECT_EQ(CountLost(before, after), 2u);
  EXPECT_EQ(CountLost(AppliedSet(), after), 0u);
}

}  // namespace
}  // namespace millrace::coordinator
