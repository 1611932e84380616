// Frozen slices and moving averages through what outlives a process: the arena, cuts, checkpoints.
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_test_util.h"
#include "ps/store/checkpoint_test_util.h"
#include "ps/store/reopened_store_fixture.h"
#include "ps/store/shard_checkpoint_fixture.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::TestJob;
using ::millrace::testing::Values;
using ::millrace::testing::WriteWholeCheckpoint;
using ::testing::Each;
using ::testing::ElementsAre;

class UpdateRulesStoreTest : public ReopenedStoreTest {
 protected:
  // A trained slice of 1 element, a frozen one of 2 that are 5, a moving average of 1; and a shard
  // that is frozen altogether.
  void Create(uint32_t replicas) {
    ShardSpec mixed = MakeSpec({1, 2, 1}, replicas);
    mixed.mutable_slices(1)->mutable_update()->mutable_frozen();
    mixed.mutable_slices(1)->mutable_initial_value()->set_constant(5);
    mixed.mutable_slices(2)->mutable_update()->mutable_moving_average()->set_momentum(0.5);
    ShardSpec frozen = MakeSpec({3}, replicas);
    frozen.set_shard(1);
    frozen.mutable_slices(0)->mutable_update()->mutable_frozen();
    frozen.mutable_slices(0)->mutable_initial_value()->set_constant(5);
    for (ShardSpec* spec : {&mixed, &frozen}) {
      spec->mutable_cut_period()->set_seconds(100'000);  // No cut but those that are asked for.
      const auto status = store_->Create(*spec, 1);
      ASSERT_TRUE(status.ok()) << status.status();
    }
  }

  void Push(uint64_t step) {
    ASSERT_EQ(PushWhole(Find(0).get(), step, ++push_id_, {1, 4}).code(), 0);
    ASSERT_EQ(PushWhole(Find(1).get(), step, ++push_id_, {}).code(), 0);
  }

  // Both shards came back so.
  void Expect(ShardStatus::Origin origin, uint64_t version, float trained, float average) {
    for (const uint32_t shard : {0, 1}) {
      EXPECT_EQ(Find(shard)->Status().origin(), origin);
      EXPECT_EQ(Find(shard)->Status().version(), version);
    }
    EXPECT_THAT(Values(*Newest(Find(0).get())), ElementsAre(trained, 5, 5, average));
    EXPECT_THAT(Values(*Newest(Find(1).get())), Each(5));
  }
};

TEST_F(UpdateRulesStoreTest, KilledServerComesBackFromTheArenaAgainAndAgain) {
  Create(/*replicas=*/1);
  Push(0);
  Push(1);
  for (int life = 0; life < 2; ++life) {
    Open(/*arena=*/true);
    Expect(ShardStatus::ARENA, 2, -2, 3);
    EXPECT_EQ(Find(0)->Contents().previous->blocks[1], Newest(Find(0).get())->blocks[1]);
    Push(1);  // Again: nothing changes.
  }
  Push(2);
  Open(/*arena=*/true);
  Expect(ShardStatus::ARENA, 3, -3, 3.5);
}

TEST_F(UpdateRulesStoreTest, CutHasWhatIsFrozenAndWhatIsAveraged) {
  Create(/*replicas=*/0);
  Push(0);
  Push(1);
  for (const uint32_t shard : {0, 1}) ASSERT_TRUE(store_->Flush("job", shard, 1).ok());
  Open(/*arena=*/false);
  Expect(ShardStatus::CUT, 2, -2, 3);
  for (const uint32_t shard : {0, 1}) ASSERT_TRUE(store_->SetGeneration("job", shard, 2).ok());
}

TEST_F(UpdateRulesStoreTest, ContributionsHeldAtACleanStopAreTakenUpAgain) {
  for (const bool in_order : {true, false}) {
    Create(/*replicas=*/3);
    Push(in_order ? 0 : 2);
    Push(1);
    ASSERT_TRUE(store_->Stop().ok());
    Open(/*arena=*/false);
    for (const uint32_t shard : {0, 1}) {
      EXPECT_EQ(Find(shard)->Status().held().watermark(), in_order ? 2 : 0);
      EXPECT_FALSE(Find(shard)->Status().closed());
    }
    Push(in_order ? 2 : 0);
    EXPECT_EQ(Find(0)->Status().version(), 1);
    EXPECT_EQ(Find(1)->Status().version(), 1);
    EXPECT_THAT(Values(*Newest(Find(0).get())), ElementsAre(-1, 5, 5, 2));
    for (const uint32_t shard : {0, 1}) ASSERT_TRUE(store_->Drop("job", shard, 1).ok());
  }
}

TEST_F(UpdateRulesStoreTest, ShardThatStepsBackGoesOnFromThere) {
  Create(/*replicas=*/1);
  Push(0);
  for (const uint32_t shard : {0, 1}) ASSERT_TRUE(store_->Flush("job", shard, 1).ok());
  Push(1);
  for (const uint32_t shard : {0, 1}) {
    StepBackRequest request;
    request.set_job_id("job");
    request.set_shard(shard);
    request.set_generation(1);
    request.set_epoch(1);
    request.mutable_cut()->set_version(1);
    const auto status = store_->StepBack(request);
    ASSERT_TRUE(status.ok()) << status.status();
  }
  EXPECT_THAT(Values(*Newest(Find(0).get())), ElementsAre(-1, 5, 5, 2));
  Push(1);
  Open(/*arena=*/true);
  Expect(ShardStatus::ARENA, 2, -2, 3);
}

constexpr uint64_t kFrozen = 10'000;

// Variables of a job with momentum: one that is trained, one that is frozen, a moving average.
class UpdateRulesCheckpointTest : public ShardCheckpointTest {
 protected:
  std::vector<ShardSpec> Shards(int shards) const {
    std::vector<ShardSpec> specs = job_.Shards(shards);
    for (ShardSpec& spec : specs) {
      for (ShardSlice& slice : *spec.mutable_slices()) {
        if (slice.slice().variable() == 1) slice.mutable_update()->mutable_frozen();
        if (slice.slice().variable() != 2) continue;
        slice.mutable_update()->mutable_moving_average()->set_momentum(0.9);
      }
    }
    return specs;
  }

  void Step(uint64_t step, int shards) {
    for (int i = 0; i < shards; ++i) {
      const std::shared_ptr<Shard> shard = Find(static_cast<uint32_t>(i));
      const std::vector<float> pushed(shard->plan().layout.pushed_elements(),
                                      static_cast<float>(step + 1));
      ASSERT_EQ(PushWhole(shard.get(), step, step, pushed).code(), 0);
    }
  }

  const TestJob job_{{50, kFrozen, 30}, MakeOptimizerSpec("sgd { momentum: 0.9 }")};
};

TEST_F(UpdateRulesCheckpointTest, RestoresTheSameBitsInOtherShards) {
  Create(Shards(4));  // Two of them are frozen altogether.
  Step(0, 4);
  Step(1, 4);
  const auto saved = AllArrays(4);
  const uint64_t first = WriteWholeCheckpoint(store_.get(), job_, 4, checkpoints_);
  Open("b");
  Create(TestJob::Restored(Shards(2), checkpoints_, first));
  EXPECT_TRUE(AllArrays(2) == saved);
  Step(2, 2);
  const auto restored = AllArrays(2);
  Open("undisturbed");
  Create(Shards(1));
  for (uint64_t step = 0; step < 3; ++step) Step(step, 1);
  EXPECT_TRUE(AllArrays(1) == restored);
}

TEST_F(UpdateRulesCheckpointTest, WhatIsFrozenIsWrittenOnce) {
  Create(Shards(1));
  Step(0, 1);
  const uint64_t first = WriteWholeCheckpoint(store_.get(), job_, 1, checkpoints_);
  Step(1, 1);
  WriteCheckpointRequest request = millrace::testing::MakeCheckpointRequest(
      0, checkpoints_, millrace::testing::BeginCheckpoint(checkpoints_));
  request.set_base(first);
  const auto second = Write(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_LT(second->shard().bytes_written(), kFrozen * sizeof(float));
  EXPECT_GT(second->shard().bytes(), kFrozen * sizeof(float));
}

TEST_F(UpdateRulesCheckpointTest, RestoredJobMayFreezeOtherVariables) {
  Create(Shards(1));
  Step(0, 1);
  const auto saved = AllArrays(1);
  const uint64_t number = WriteWholeCheckpoint(store_.get(), job_, 1, checkpoints_);
  Open("b");
  std::vector<ShardSpec> specs = TestJob::Restored(Shards(1), checkpoints_, number);
  specs[0].mutable_slices(0)->mutable_update()->mutable_frozen();
  specs[0].mutable_slices(1)->clear_update();
  Create(specs);
  EXPECT_TRUE(AllArrays(1) == saved);
  Step(1, 1);
  const std::vector<float> values = Values(*Newest(Find().get()));
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(values[i], saved[0][i]);
  for (size_t i = 50; i < 50 + kFrozen; ++i) EXPECT_LT(values[i], saved[0][i]);
}

}  // namespace
}  // namespace millrace::ps
