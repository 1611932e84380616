// Slices that are updated by a rule of their own: what a push has to bring, and what it does.
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/dense/push_assembly.h"
#include "ps/shard/shard_fixture.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeMessage;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kInvalid = static_cast<int>(absl::StatusCode::kInvalidArgument);

// A trained slice of 2 elements, a frozen one of 3 that are 5, and a moving average of 1.
ShardSpec MixedSpec(uint32_t replicas = 0) {
  ShardSpec spec = MakeSpec({2, 3, 1}, replicas, /*total_steps=*/100);
  spec.mutable_slices(1)->mutable_update()->mutable_frozen();
  spec.mutable_slices(1)->mutable_initial_value()->set_constant(5);
  spec.mutable_slices(2)->mutable_update()->mutable_moving_average()->set_momentum(0.75);
  return spec;
}

ShardSpec FrozenSpec(uint32_t replicas = 0) {
  ShardSpec spec = MakeSpec({2, kBlockElements + 1}, replicas, /*total_steps=*/100);
  for (ShardSlice& slice : *spec.mutable_slices()) {
    slice.mutable_update()->mutable_frozen();
    slice.mutable_initial_value()->set_constant(5);
  }
  return spec;
}

class UpdateRulesTest : public ShardTest {
 protected:
  PushResponse Push(uint64_t step, const std::vector<float>& pushed, uint32_t examples = 1) {
    return PushWhole(shard_.get(), step, ++push_id_, pushed, examples);
  }

  uint64_t push_id_ = 0;
};

TEST_F(UpdateRulesTest, PushIsCompleteWithoutWhatIsFrozen) {
  Make(MixedSpec());
  EXPECT_EQ(Push(0, {1, 2, 8}).outcome(), PushResponse::APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-1, -2, 5, 5, 5, 2));
  EXPECT_EQ(Push(1, {1, 2, 8}).version(), 2);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-2, -4, 5, 5, 5, 3.5));
}

// What a shard says of itself grew beyond what a message holds.
TEST_F(UpdateRulesTest, StepFarAheadOfTheFirstThatIsMissingIsRefused) {
  Make(MakeSpec({1}, /*replicas=*/0, /*total_steps=*/uint64_t{1} << 40));
  EXPECT_EQ(Push((1 << 20), {1}).outcome(), PushResponse::APPLIED);
  const PushResponse refused = Push((1 << 20) + 1, {1});
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(refused.message(),
            "step: 1048577; must be at most 1048576 after step 0, the first that the shard lacks");
  EXPECT_EQ(Push(0, {1}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Push((1 << 20) + 1, {1}).outcome(), PushResponse::APPLIED);
}

TEST_F(UpdateRulesTest, StatesHaveTheSameFrozenBlock) {
  Make(MixedSpec(/*replicas=*/1));
  const StatePtr before = Newest(shard_.get());
  const uint64_t bytes = shard_->Status().memory_bytes();
  EXPECT_EQ(bytes, 6 * sizeof(float));
  Push(0, {1, 2, 8});
  const StatePtr after = Newest(shard_.get());
  EXPECT_EQ(after->blocks[1], before->blocks[1]);
  EXPECT_NE(after->blocks[0], before->blocks[0]);
  EXPECT_NE(after->blocks[2], before->blocks[2]);
  EXPECT_EQ(shard_->Status().memory_bytes(), bytes + 3 * sizeof(float)) << "the version before";
}

TEST_F(UpdateRulesTest, RetriedStepMovesAnAverageOnce) {
  Make(MixedSpec());
  EXPECT_EQ(Push(0, {1, 2, 8}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Push(0, {1, 2, 8}).outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-1, -2, 5, 5, 5, 2));
}

TEST_F(UpdateRulesTest, PieceOfAFrozenSliceIsRefusedAndVoidsItsPush) {
  Make(MixedSpec());
  DecodedPush message = MakeMessage(shard_->plan().spec, /*step=*/0, /*push_id=*/1);
  message.pieces.push_back(MakeWirePiece(1, 0, {1.0f, 1.0f, 1.0f}));
  PushResponse answer;
  EXPECT_TRUE(shard_->Push(1, std::move(message), [&](const PushResponse& got) { answer = got; }));
  EXPECT_EQ(answer.code(), kInvalid);
  EXPECT_THAT(answer.message(), HasSubstr("step 0: piece.slice: 1; it is frozen"));
  EXPECT_EQ(PushPart(1, 0, 1, 0, 2, 1)->code(), static_cast<int>(absl::StatusCode::kAborted));
}

TEST_F(UpdateRulesTest, StatisticThatIsNoNumberIsCalledOne) {
  Make(MixedSpec());
  EXPECT_THAT(Push(0, {1, 2, std::nanf("")}).message(),
              HasSubstr("the statistic of variable 'variable_2' has nan at element 0"));
}

TEST_F(UpdateRulesTest, PushOfNothingIsRefusedWhereSomethingIsTrained) {
  Make(MixedSpec());
  DecodedPush message = MakeMessage(shard_->plan().spec, 0, 1);
  PushResponse answer;
  EXPECT_TRUE(shard_->Push(1, std::move(message), [&](const PushResponse& got) { answer = got; }));
  EXPECT_EQ(answer.code(), kInvalid);
  EXPECT_THAT(answer.message(), HasSubstr("pieces: none"));
}

TEST_F(UpdateRulesTest, SynchronousStatisticIsTheWeightedMean) {
  Make(MixedSpec(/*replicas=*/3));
  EXPECT_EQ(Push(2, {0, 0, 3}, /*examples=*/2).outcome(), PushResponse::HELD);
  EXPECT_EQ(Push(0, {0, 0, 1}, /*examples=*/4).outcome(), PushResponse::HELD);
  EXPECT_EQ(Push(1, {8, 0, 2}, /*examples=*/2).outcome(), PushResponse::APPLIED);
  const float statistic = (4 * 1 + 2 * 2 + 2 * 3) / 8.0f;
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-2, 0, 5, 5, 5, 0.25f * statistic));
}

// Blocks are recycled: the slots of a moving average, which no formula writes, were another's.
TEST_F(UpdateRulesTest, SlotsOfAMovingAverageStayAsTheyAre) {
  ShardSpec spec = MakeSpec({1000, 1000}, /*replicas=*/2, /*total_steps=*/100);
  spec.mutable_optimizer()->mutable_adam();
  spec.mutable_slices(1)->mutable_update()->mutable_moving_average()->set_momentum(0.75);
  Make(spec);
  for (uint64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(Push(step, std::vector<float>(2000, 1)).code(), 0);
  }
  const StatePtr state = Newest(shard_.get());
  for (int slot = 1; slot <= 2; ++slot) {
    const auto slots_of = [&](size_t block) {
      const float* const first = state->blocks[block]->array(slot);
      return std::vector<float>(first, first + 1000);
    };
    EXPECT_THAT(slots_of(0), Each(slots_of(0).front()));
    EXPECT_NE(slots_of(0).front(), 0);
    EXPECT_THAT(slots_of(1), Each(0));
  }
}

TEST_F(UpdateRulesTest, ShardThatIsAllFrozenAdvancesWithEachEmptyPush) {
  Make(FrozenSpec());
  const StatePtr before = Newest(shard_.get());
  EXPECT_EQ(Push(0, {}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Push(2, {}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Push(0, {}).outcome(), PushResponse::ALREADY_APPLIED);
  const StatePtr after = Newest(shard_.get());
  EXPECT_EQ(after->version, 2);
  EXPECT_EQ(after->applied.watermark(), 1);
  EXPECT_TRUE(after->applied.Contains(2));
  EXPECT_EQ(after->blocks, before->blocks);
  EXPECT_THAT(Values(*after), Each(5));
}

TEST_F(UpdateRulesTest, SynchronousShardThatIsAllFrozenHoldsContributionsLikeOthers) {
  Make(FrozenSpec(/*replicas=*/3));
  EXPECT_EQ(Push(1, {}).outcome(), PushResponse::HELD);
  EXPECT_EQ(Push(1, {}).outcome(), PushResponse::HELD);
  EXPECT_EQ(Push(0, {}).outcome(), PushResponse::HELD);
  EXPECT_EQ(shard_->Status().held().watermark(), 2);
  EXPECT_EQ(Push(3, {}).code(), static_cast<int>(absl::StatusCode::kOutOfRange));
  EXPECT_EQ(Push(2, {}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Newest(shard_.get())->version, 1);
  EXPECT_EQ(Push(2, {}).outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(5));
}

// The contributions of another life, as the shard had them: each on its own, or their sum.
TEST_F(UpdateRulesTest, HeldContributionsGoOnInAnotherLife) {
  for (const bool in_order : {false, true}) {
    for (const bool all_frozen : {false, true}) {
      const ShardSpec spec = all_frozen ? FrozenSpec(/*replicas=*/3) : MixedSpec(/*replicas=*/3);
      const std::vector<float> pushed =
          all_frozen ? std::vector<float>() : std::vector<float>{3, 3, 4};
      Make(spec);
      Push(in_order ? 0 : 2, pushed);
      Push(1, pushed);
      MakeFrom(spec, shard_->Contents());
      EXPECT_EQ(Push(1, pushed).outcome(), PushResponse::HELD);
      EXPECT_EQ(Push(in_order ? 2 : 0, pushed).outcome(), PushResponse::APPLIED);
      EXPECT_EQ(Newest(shard_.get())->version, 1);
      if (all_frozen) {
        EXPECT_THAT(Values(*Newest(shard_.get())), Each(5));
      } else {
        EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-3, -3, 5, 5, 5, 1));
      }
    }
  }
}

// An old state that a slow pull keeps costs what was replaced, not what is shared.
TEST_F(UpdateRulesTest, OldStateOfAFrozenShardCostsNothing) {
  spare_.emplace(100);
  Make(FrozenSpec());
  const std::shared_ptr<StateHold> hold = shard_->Hold(Newest(shard_.get()));
  Push(0, {});
  EXPECT_NE(hold->Get(), nullptr);
  EXPECT_EQ(spare_->used(), 0);
}

}  // namespace
}  // namespace millrace::ps
