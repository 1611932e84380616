#include "ps/dense/arena_root.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "ps/block/arena.h"
#include "ps/dense/block_successors.h"
#include "ps/dense/staged_update.h"

namespace millrace::ps {
namespace {

constexpr uint64_t kElements = 2 * kBlockElements + 100;

ShardSpec MakeSpec(uint32_t replicas) {
  ShardSpec spec;
  spec.set_job_id("job");
  spec.set_replicas(replicas);
  spec.set_total_steps(1000);
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  ShardSlice& slice = *spec.add_slices();
  slice.mutable_slice()->set_length(kElements);
  slice.set_variable_name("variable");
  slice.mutable_initial_value()->set_constant(0);
  return spec;
}

class ArenaRootTest : public ::testing::Test {
 protected:
  ArenaRootTest() {
    const std::string directory = absl::StrCat(::testing::TempDir(), "/arena_root_test");
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    options_.parent = directory;
    options_.data_dir = directory;
    options_.directory_id = "0123";
    options_.clock = &clock_;
    options_.reserve = [this](int fd, size_t bytes) {
      return full_ ? ENOSPC : ReserveWithFallocate(fd, bytes);
    };
    Open();
    arena_->EndRecovery();
    root_ = MakeArenaRoot(arena_, plan_);
  }

  // As a server that is started; the one before was killed.
  void Open() {
    if (arena_ != nullptr) arena_->Abandon();
    arena_ = *Arena::Open(options_);
    pool_ = std::make_unique<BlockPool>(arena_);
  }

  // A state whose numbers are all `value`. It lives as long as the test: nobody lets go of blocks
  // that a root leads to.
  StatePtr MakeState(uint64_t version, float value) {
    auto state = std::make_shared<ShardState>();
    state->version = version;
    for (uint64_t step = 0; step < version; ++step) state->applied.Insert(2 * step);
    for (const BlockLayout::BlockPlace& place : plan_.layout.blocks()) {
      std::shared_ptr<Block> block = pool_->Allocate(place.elements, plan_.optimizer->slots());
      for (int i = 0; i <= block->slots(); ++i) std::fill_n(block->array(i), place.elements, value);
      state->blocks.push_back(std::move(block));
    }
    kept_.push_back(state);
    return state;
  }

  static void ExpectState(const StatePtr& state, uint64_t version, float value) {
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(state->version, version);
    AppliedSet applied;
    for (uint64_t step = 0; step < version; ++step) applied.Insert(2 * step);
    EXPECT_TRUE(state->applied == applied);
    ASSERT_EQ(state->blocks.size(), 3);
    for (const auto& block : state->blocks) {
      for (int i = 0; i <= block->slots(); ++i) {
        EXPECT_EQ(block->array(i)[0], value);
        EXPECT_EQ(block->array(i)[block->elements() - 1], value);
      }
    }
  }

  absl::StatusOr<absl::optional<RecoveredRoot>> Recover() {
    Open();
    return RecoverArenaRoot(arena_, plan_, pool_.get());
  }

  SimulatedClock clock_;
  ArenaOptions options_;
  bool full_ = false;
  ShardPlan plan_ = *PlanShard(MakeSpec(/*replicas=*/2));
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<ShardRoot> root_;
  std::vector<StatePtr> kept_;
};

TEST_F(ArenaRootTest, SuccessorFindsBothVersionsAndAllThatGoesWithThem) {
  root_->Write({MakeState(1, 1), nullptr, /*epoch=*/0, /*generation=*/1, false});
  root_->Write({MakeState(7, 7), MakeState(6, 6), /*epoch=*/3, /*generation=*/4, true});
  auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  const RootContents& contents = (*found)->contents;
  ExpectState(contents.state, 7, 7);
  ExpectState(contents.previous, 6, 6);
  EXPECT_EQ(contents.epoch, 3);
  EXPECT_EQ(contents.generation, 4);
  EXPECT_TRUE(contents.more_acknowledged);
}

TEST_F(ArenaRootTest, SuccessorOfTheSuccessorFindsWhatThatOneWrote) {
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value());
  arena_->EndRecovery();
  (*found)->root->Write({MakeState(2, 2), (*found)->contents.state, 0, 1, false});
  found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value());
  ExpectState((*found)->contents.state, 2, 2);
  ExpectState((*found)->contents.previous, 1, 1);
}

TEST_F(ArenaRootTest, NothingIsFoundOfWhatWasNotWritten) {
  const auto found = Recover();
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
}

TEST_F(ArenaRootTest, NoteIsFound) {
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  root_->NoteMoreAcknowledged();
  EXPECT_TRUE((**Recover()).contents.more_acknowledged);
}

TEST_F(ArenaRootTest, DestroyedRootIsNotFound) {
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  root_.reset();
  EXPECT_FALSE((*Recover()).has_value());
}

// A server that stops leaves its roots to its successor.
TEST_F(ArenaRootTest, RootOfAnAbandonedArenaStaysAsItIs) {
  const StatePtr last = MakeState(1, 1);
  root_->Write({last, nullptr, 0, 1, false});
  const StatePtr later = MakeState(2, 2);
  arena_->Abandon();
  root_->Write({later, last, 0, 1, false});
  root_->NoteMoreAcknowledged();
  root_.reset();
  const auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  ExpectState((*found)->contents.state, 1, 1);
  EXPECT_FALSE((*found)->contents.more_acknowledged);
}

// Those of frozen variables, and those that a version of rows has not changed.
TEST_F(ArenaRootTest, VersionsMayShareBlocks) {
  const StatePtr before = MakeState(6, 6);
  auto state = std::make_shared<ShardState>(*MakeState(7, 7));
  state->blocks[1] = before->blocks[1];
  kept_.push_back(state);
  root_->Write({state, before, 0, 1, false});
  const auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  const RootContents& contents = (*found)->contents;
  ExpectState(contents.previous, 6, 6);
  EXPECT_EQ(contents.state->blocks[1], contents.previous->blocks[1]);
  EXPECT_EQ(contents.state->blocks[2]->array(0)[0], 7);
}

TEST_F(ArenaRootTest, NormsThatVersionsWereMadeWithAreFound) {
  ShardSpec spec = MakeSpec(/*replicas=*/2);
  spec.mutable_optimizer()->set_global_clip_norm(1);
  plan_ = *PlanShard(spec);
  root_ = MakeArenaRoot(arena_, plan_);
  const StatePtr first = MakeState(6, 6);
  auto state = std::make_shared<ShardState>(*MakeState(7, 7));
  state->gradient_norm = 0.1;
  kept_.push_back(state);
  root_->Write({state, first, 0, 1, false});
  const auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  const RootContents& contents = (*found)->contents;
  ExpectState(contents.state, 7, 7);
  EXPECT_EQ(contents.state->gradient_norm, absl::make_optional(0.1));
  ExpectState(contents.previous, 6, 6);
  EXPECT_EQ(contents.previous->gradient_norm, absl::nullopt);
}

TEST_F(ArenaRootTest, ShardOfAnotherSpecIsNotFound) {
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  plan_ = *PlanShard(MakeSpec(/*replicas=*/1));
  EXPECT_FALSE((*Recover()).has_value());
}

// The state before must not be found either: steps were acknowledged since.
TEST_F(ArenaRootTest, StateInOrdinaryMemoryEmptiesTheRoot) {
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  StatePtr ordinary;
  {
    BlockPool pool;
    auto state = std::make_shared<ShardState>(*MakeState(2, 2));
    state->blocks[1] = pool.Allocate(kBlockElements, 1);
    ordinary = std::move(state);
  }
  root_->Write({ordinary, MakeState(1, 1), 0, 1, false});
  EXPECT_FALSE((*Recover()).has_value());
}

TEST_F(ArenaRootTest, RootIsFilledAgainWhenAllBlocksAreInTheArena) {
  auto state = std::make_shared<ShardState>(*MakeState(1, 1));
  BlockPool pool;
  state->blocks[1] = pool.Allocate(kBlockElements, 1);
  root_->Write({state, nullptr, 0, 1, false});
  root_->Write({MakeState(2, 2), state, 0, 1, false});
  const auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value());
  ExpectState((*found)->contents.state, 2, 2);
  EXPECT_EQ((*found)->contents.previous, nullptr) << "it was not in the arena";
}

// One was never tried again, and the shard came back from its cut for the rest of its life.
TEST_F(ArenaRootTest, FrozenBlocksMadeWithoutRoomMoveOneByOneWhenThereIsSome) {
  ShardSpec spec = MakeSpec(/*replicas=*/0);
  spec.mutable_slices(0)->mutable_update()->mutable_frozen();
  plan_ = *PlanShard(spec);
  root_ = MakeArenaRoot(arena_, plan_);
  full_ = true;
  StatePtr state = MakeState(1, 5);
  const UpdateTools tools = {&plan_.layout, plan_.optimizer.get(), pool_.get()};
  const auto next = [&](uint64_t step) {
    state = StagedUpdate(tools, state).Finish({step});
    kept_.push_back(state);
    root_->Write({state, nullptr, 0, 1, false});
  };
  next(2);
  for (const auto& block : state->blocks) EXPECT_EQ(block->place(), 0u) << "there is no room";
  full_ = false;
  clock_.Advance(absl::Minutes(1));
  for (uint64_t step = 4; step <= 8; step += 2) {
    EXPECT_EQ(state->blocks.back()->place(), 0u);
    next(step);
  }
  const auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  ExpectState((*found)->contents.state, 5, 5);
}

TEST_F(ArenaRootTest, SuccessorsOfBlocksMadeWithoutRoomAreInTheArenaWhenThereIsSome) {
  full_ = true;
  BlockSuccessors successors(/*blocks=*/1, pool_.get());
  std::shared_ptr<const Block> newest = pool_->Allocate(kBlockElements, /*slots=*/1);
  const auto change = [&] {
    newest = successors.Publish(0, newest, successors.Copy(0, newest), {{0, 1}});
    return newest->place();
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(change(), 0u) << "there is no room";
  full_ = false;
  clock_.Advance(absl::Minutes(1));
  for (int i = 0; i < 3; ++i) EXPECT_NE(change(), 0u);
  EXPECT_NE(successors.Spare(0), nullptr);
  full_ = true;
}

TEST_F(ArenaRootTest, BlocksMadeWithoutRoomAreNotSpared) {
  full_ = true;
  BlockSuccessors successors(/*blocks=*/1, pool_.get());
  std::shared_ptr<const Block> newest = pool_->Allocate(kBlockElements, /*slots=*/1);
  for (int i = 0; i < 3; ++i) {
    newest = successors.Publish(0, newest, successors.Copy(0, newest), {{0, 1}});
  }
  EXPECT_EQ(successors.Spare(0), nullptr) << "one is to be made where there is room";
}

TEST_F(ArenaRootTest, ManyStepsAboveTheWatermarkFit) {
  auto state = std::make_shared<ShardState>(*MakeState(1, 1));
  for (uint64_t step = 0; step < 5000; ++step) state->applied.Insert(100 + 2 * step);
  root_->Write({state, nullptr, 0, 1, false});
  const auto found = Recover();
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_TRUE((*found)->contents.state->applied == state->applied);
}

TEST_F(ArenaRootTest, WithoutRoomForTheRootTheShardGoesOn) {
  full_ = true;
  plan_ = *PlanShard(MakeSpec(/*replicas=*/1));
  root_ = MakeArenaRoot(arena_, plan_);
  full_ = false;
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  root_->NoteMoreAcknowledged();
  EXPECT_FALSE((*Recover()).has_value());
}

TEST_F(ArenaRootTest, RootWhoseBlocksAreGoneMakesNoSense) {
  root_->Write({MakeState(1, 1), nullptr, 0, 1, false});
  for (const auto& entry : std::filesystem::directory_iterator(arena_->path())) {
    if (absl::StrContains(entry.path().string(), "segment.")) {
      std::filesystem::remove(entry.path());
    }
  }
  EXPECT_EQ(Recover().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE((*Recover()).has_value()) << "it is not looked at twice";
}

}  // namespace
}  // namespace millrace::ps
