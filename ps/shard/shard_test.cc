#include "ps/shard/shard.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/optimizer/optimizer.h"
#include "ps/shard/shard_fixture.h"
#include "ps/shard/shard_test_util.h"
#include "testing/seed/test_seed.h"

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

// Subtracts the gradient, and counts the elements.
class CountingOptimizer final : public Optimizer {
 public:
  explicit CountingOptimizer(uint64_t* elements) : elements_(elements) {}

  int slots() const override { return 0; }
  void Apply(uint64_t /*version*/, const char* gradient, size_t count, const float* const* in,
             float* const* out) const override {
    *elements_ += count;
    for (size_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, gradient + i * sizeof(float), sizeof(float));
      out[0][i] = in[0][i] - value;
    }
  }

 private:
  uint64_t* const elements_;
};

// Calls something while it computes.
class CallingOptimizer final : public Optimizer {
 public:
  explicit CallingOptimizer(std::function<void()> call) : call_(std::move(call)) {}

  int slots() const override { return 0; }
  void Apply(uint64_t /*version*/, const char* /*gradient*/, size_t /*count*/,
             const float* const* /*in*/, float* const* /*out*/) const override {
    call_();
  }

 private:
  const std::function<void()> call_;
};

TEST_F(ShardTest, CompletePushOvertakesAStalledOne) {
  Make(MakeSpec({10}));
  EXPECT_FALSE(PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1).has_value());
  EXPECT_EQ(PushPart(2, /*step=*/1, /*push_id=*/2, 0, 10, 10)->outcome(), PushResponse::APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-10));
  const absl::optional<PushResponse> last = PushPart(1, 0, 1, 9, 1, 1);
  EXPECT_EQ(last->outcome(), PushResponse::APPLIED);
  EXPECT_EQ(last->version(), 2);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-11));
}

// What had arrived of a slow push was computed again after each push that overtook it.
TEST_F(ShardTest, OvertakenPushIsComputedOnceMore) {
  uint64_t computed = 0;
  Make(MakeSpec({10}), std::make_unique<CountingOptimizer>(&computed));
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1);
  EXPECT_EQ(computed, 9);
  for (uint64_t step = 1; step <= 5; ++step) {
    EXPECT_EQ(PushPart(2, step, step + 1, 0, 10, 10)->outcome(), PushResponse::APPLIED);
  }
  EXPECT_EQ(computed, 9 + 5 * 10);
  // Others have the turn from their first message on.
  PushPart(2, /*step=*/6, /*push_id=*/7, 0, 4, 10);
  EXPECT_EQ(computed, 9 + 5 * 10 + 4);
  PushPart(2, 6, 7, 4, 6, 10);
  EXPECT_EQ(PushPart(1, 0, 1, 9, 1, 1)->outcome(), PushResponse::APPLIED);
  EXPECT_EQ(computed, 9 + 6 * 10 + 10);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-61));
}

TEST_F(ShardTest, TurnPassesOnWhenItsHolderIsLost) {
  Make(MakeSpec({10}));
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1);
  PushPart(2, /*step=*/1, /*push_id=*/2, 0, 5, 10);
  shard_->StreamEnded(1);
  EXPECT_EQ(PushPart(2, 1, 2, 5, 5, 10)->outcome(), PushResponse::APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-10));
  EXPECT_EQ(PushPart(3, 0, 1, 9, 1, 1)->code(), static_cast<int>(absl::StatusCode::kAborted));
}

TEST_F(ShardTest, OfTwoPushesOfAStepOneIsApplied) {
  Make(MakeSpec({10}));
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1);
  EXPECT_EQ(PushPart(2, /*step=*/0, /*push_id=*/2, 0, 10, 1)->outcome(), PushResponse::APPLIED);
  EXPECT_EQ(PushPart(1, 0, 1, 9, 1, 1)->outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-1));
}

TEST_F(ShardTest, AdamUsesTheVersionAtPublication) {
  ShardSpec spec = MakeSpec({4});
  spec.mutable_optimizer()->mutable_adam()->set_learning_rate(0.1);
  std::vector<float> in_order;
  for (const bool overtaken : {false, true}) {
    Make(spec);
    if (overtaken) PushPart(1, 1, 1, 0, 3, 2);
    PushPart(2, 0, 2, 0, 4, 1);
    if (!overtaken) PushPart(1, 1, 1, 0, 3, 2);
    PushPart(1, 1, 1, 3, 1, 2);
    EXPECT_EQ(Newest(shard_.get())->version, 2);
    if (!overtaken) in_order = Values(*Newest(shard_.get()));
  }
  EXPECT_EQ(Values(*Newest(shard_.get())), in_order);
}

TEST_F(ShardTest, MessagesOfAPushMustAgree) {
  Make(MakeSpec({10}));
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1);
  const absl::optional<PushResponse> answer = PushPart(1, /*step=*/1, /*push_id=*/1, 9, 1, 1);
  EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(answer->message(), HasSubstr("began with step 0"));
  EXPECT_EQ(Newest(shard_.get())->version, 0);
}

TEST_F(ShardTest, StreamThatNeverCompletesItsPushesIsRefusedFurtherOnes) {
  Make(MakeSpec({10}));
  uint64_t push_id = 0;
  absl::optional<PushResponse> answer;
  while (!answer.has_value() && push_id < 10'000) {
    ++push_id;
    answer = PushPart(1, /*step=*/push_id, push_id, 0, 9, 1);
  }
  EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(PushPart(2, 0, 20'000, 0, 10, 1)->outcome(), PushResponse::APPLIED) << "another stream";
  EXPECT_EQ(PushPart(1, 1, 1, 9, 1, 1)->outcome(), PushResponse::APPLIED);
  EXPECT_FALSE(PushPart(1, 1, 20'001, 0, 9, 1).has_value()) << "one is complete";
}

TEST_F(ShardTest, PushThatGetsNoFurtherIsVoidedInTime) {
  Make(MakeSpec({10}));
  const absl::Time start = absl::UnixEpoch();
  PushPart(1, 0, 1, 0, 9, 1);
  shard_->Tick(start);
  PushPart(1, 1, 2, 0, 5, 1);
  shard_->Tick(start + absl::Seconds(29));
  PushPart(1, 1, 2, 5, 4, 1);
  shard_->Tick(start + absl::Seconds(61));
  const auto late = PushPart(1, 0, 1, 9, 1, 1);
  EXPECT_EQ(late->code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_THAT(late->message(), HasSubstr("; 9 of 10 elements of it had come; push the step again"));
  EXPECT_EQ(PushPart(1, 1, 2, 9, 1, 1)->outcome(), PushResponse::APPLIED) << "it got on";
}

// The thread that voided a push computed the next one then, while deadlines of all shards passed.
TEST_F(ShardTest, PushThatWaitedForAVoidedOneIsComputedWithItsOwnNextMessage) {
  uint64_t computed = 0;
  Make(MakeSpec({10}), std::make_unique<CountingOptimizer>(&computed));
  const absl::Time start = absl::UnixEpoch();
  shard_->Tick(start);
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 9, 1);
  shard_->Tick(start + absl::Seconds(29));
  PushPart(2, /*step=*/1, /*push_id=*/2, 0, 9, 10);
  EXPECT_EQ(computed, 9) << "the first one has the turn";
  shard_->Tick(start + absl::Seconds(61));
  EXPECT_EQ(computed, 9);
  EXPECT_EQ(PushPart(2, 1, 2, 9, 1, 10)->outcome(), PushResponse::APPLIED);
  EXPECT_EQ(computed, 9 + 10);
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-10));
  EXPECT_EQ(PushPart(1, 0, 1, 9, 1, 1)->code(), static_cast<int>(absl::StatusCode::kAborted));
}

// 64 unfinished pushes for each stream, and any number of streams, were held.
TEST_F(ShardTest, GradientsUnderWayAreBoundedForAllStreamsTogether) {
  spare_.emplace(100'000);
  Make(MakeSpec({1000}));
  absl::optional<PushResponse> answer;
  uint64_t push_id = 0;
  while (!answer.has_value() && push_id < 1000) {
    ++push_id;
    answer = PushPart(/*stream=*/push_id, /*step=*/push_id, push_id, 0, 999, 1);
  }
  EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(answer->message(), HasSubstr("no memory for more gradients"));
  EXPECT_LE(shard_->Status().memory_bytes(), 4000 + 8000 + 100'000);
  EXPECT_EQ(PushPart(1, 1, 1, 999, 1, 1)->outcome(), PushResponse::APPLIED) << "it had begun";
  for (uint64_t stream = 1; stream <= push_id; ++stream) shard_->StreamEnded(stream);
  EXPECT_EQ(spare_->used(), 0);
  EXPECT_EQ(PushPart(1, 2, 2000, 0, 1000, 1)->outcome(), PushResponse::APPLIED);
}

// Of steps that are applied already no data are kept, and what was kept of where they belong was in
// no count.
TEST_F(ShardTest, UnfinishedPushesOfAppliedStepsAreBoundedToo) {
  spare_.emplace(100'000);
  Make(MakeSpec({1000}));
  PushWhole(shard_.get(), /*step=*/0, /*push_id=*/1, std::vector<float>(1000, 1));
  absl::optional<PushResponse> answer;
  uint64_t push_id = 1;
  while (!answer.has_value() && push_id < 1000) {
    DecodedPush message = MakeMessage(shard_->plan().spec, /*step=*/0, ++push_id);
    for (uint64_t offset = 0; offset < 200; offset += 2) {
      message.pieces.push_back(MakeWirePiece(0, offset, std::vector<float>(1, 1)));
    }
    shard_->Push(/*stream=*/push_id, std::move(message),
                 [&](const PushResponse& got) { answer = got; });
  }
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  for (uint64_t stream = 1; stream <= push_id; ++stream) shard_->StreamEnded(stream);
  EXPECT_EQ(spare_->used(), 0);
}

TEST_F(ShardTest, GradientsThatWaitForOthersOfTheirVersionCountAsMemory) {
  Make(MakeSpec({1000}, /*replicas=*/3));
  const std::vector<float> gradient(1000, 1);
  PushWhole(shard_.get(), /*step=*/2, /*push_id=*/1, gradient);
  EXPECT_GE(shard_->Status().memory_bytes(), 4000 + 4000);
  PushWhole(shard_.get(), 0, 2, gradient);
  PushWhole(shard_.get(), 1, 3, gradient);
  EXPECT_EQ(shard_->Status().version(), 1);
  EXPECT_EQ(shard_->Status().memory_bytes(), 2 * 4000) << "two versions, and nothing else";
}

// They were in no count: a restarted server took more gradients than it has memory for.
TEST_F(ShardTest, ContributionsOfAnEarlierLifeCountAsMemory) {
  spare_.emplace(1'000'000);
  const ShardSpec spec = MakeSpec({1000}, /*replicas=*/2);
  auto pieces = std::make_shared<std::vector<WirePiece>>();
  for (uint64_t i = 0; i < 1000; ++i) {
    pieces->push_back(MakeWirePiece(0, i, std::vector<float>(1, 1)));
  }
  ShardContents contents;
  contents.held = {std::make_shared<PushAssembly>(/*push_id=*/0, /*step=*/1, /*examples=*/1)};
  ASSERT_TRUE(contents.held[0]->Add(PlanShard(spec)->layout, 0, std::move(pieces), true).ok());
  MakeFrom(spec, std::move(contents));
  EXPECT_GE(shard_->Status().memory_bytes(), 4000 + 1000 * (4 + kPieceOverhead));
  EXPECT_GE(spare_->used(), 100'000);
  EXPECT_EQ(PushWhole(shard_.get(), 0, 1, std::vector<float>(1000, 1)).outcome(),
            PushResponse::APPLIED);
  EXPECT_EQ(shard_->Status().memory_bytes(), 2 * 4000);
  EXPECT_EQ(spare_->used(), 0);
}

// What a held one took beside its numbers left no room for the one that it waited for.
TEST_F(ShardTest, ContributionInSmallPiecesLeavesRoomForTheOneBeforeIt) {
  spare_.emplace(7000);
  Make(MakeSpec({1600}, /*replicas=*/2));
  PushTwoInSmallPieces([this](uint64_t step, uint64_t offset, size_t count) {
    return PushPart(1, step, /*push_id=*/step + 1, offset, count, static_cast<float>(offset));
  });
  EXPECT_EQ(Values(*Newest(shard_.get()))[1599], -1584);
  EXPECT_EQ(spare_->used(), 0);
}

TEST_F(ShardTest, ShardHasRoomForItsOwnPushWhateverOthersHold) {
  spare_.emplace(1000);
  spare_->Change(0, 1'000'000);
  Make(MakeSpec({1000}));
  EXPECT_FALSE(PushPart(1, 0, 1, 0, 900, 1).has_value());
  EXPECT_FALSE(PushPart(1, 1, 2, 0, 900, 1).has_value());
  EXPECT_EQ(PushPart(1, 2, 3, 0, 900, 1)->code(),
            static_cast<int>(absl::StatusCode::kResourceExhausted));
}

TEST_F(ShardTest, GradientThatIsNoNumberIsRefusedWhole) {
  Make(MakeSpec({10}));
  PushPart(1, /*step=*/3, /*push_id=*/1, 0, 5, 1);
  const absl::optional<PushResponse> answer = PushPart(1, 3, 1, 5, 5, std::nanf(""));
  EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(answer->message(), HasSubstr("step 3: the gradient of variable 'variable_0' has nan "
                                           "at element 5"));
  EXPECT_EQ(Newest(shard_.get())->version, 0);
  EXPECT_EQ(PushPart(1, 3, 2, 0, 10, 1)->outcome(), PushResponse::APPLIED);
}

TEST_F(ShardTest, FenceDropsWhatIsUnfinished) {
  Make(MakeSpec({10}));
  PushPart(1, 0, 1, 0, 9, 1);
  ASSERT_TRUE(shard_->SetGeneration(2).ok());
  EXPECT_EQ(PushPart(1, 0, 1, 9, 1, 1)->code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Newest(shard_.get())->version, 0);
}

TEST_F(ShardTest, SynchronousVersionIsTheWeightedMean) {
  Make(MakeSpec({1}, /*replicas=*/3, /*total_steps=*/7));
  EXPECT_EQ(PushWhole(shard_.get(), 2, 1, {3.0f}, /*examples=*/2).outcome(), PushResponse::HELD);
  EXPECT_EQ(PushWhole(shard_.get(), 0, 2, {1.0f}, /*examples=*/4).outcome(), PushResponse::HELD);
  EXPECT_EQ(PushWhole(shard_.get(), 2, 3, {9.0f}, /*examples=*/2).outcome(), PushResponse::HELD);
  EXPECT_EQ(PushWhole(shard_.get(), 1, 4, {2.0f}, /*examples=*/2).outcome(), PushResponse::APPLIED);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-(4 * 1 + 2 * 2 + 2 * 3) / 8.0f));
  EXPECT_EQ(PushWhole(shard_.get(), 1, 5, {2.0f}).outcome(), PushResponse::ALREADY_APPLIED);
}

TEST_F(ShardTest, SynchronousResultDoesNotDependOnTheOrderOfArrival) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> gradients(4, std::vector<float>(1000));
  for (std::vector<float>& gradient : gradients) {
    for (float& each : gradient) each = normal(random);
  }
  std::vector<uint64_t> order = {0, 1, 2, 3};
  std::vector<float> in_order;
  do {
    Make(MakeSpec({1000}, /*replicas=*/4));
    for (const uint64_t step : order) {
      PushWhole(shard_.get(), step, step, gradients[step], static_cast<uint32_t>(10 + step));
    }
    ASSERT_EQ(Newest(shard_.get())->version, 1);
    if (in_order.empty()) in_order = Values(*Newest(shard_.get()));
    ASSERT_EQ(Values(*Newest(shard_.get())), in_order);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ShardTest, SynchronousResultDoesNotDependOnThePieces) {
  constexpr uint64_t kFirst = 2 * kBlockElements + 77;
  const ShardSpec spec = MakeSpec({kFirst, 9}, /*replicas=*/2);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> gradients(2, std::vector<float>(kFirst + 9));
  for (std::vector<float>& gradient : gradients) {
    for (float& each : gradient) each = normal(random);
  }
  Make(spec);
  for (const uint64_t step : {0, 1}) PushWhole(shard_.get(), step, step, gradients[step], 3);
  const std::vector<float> expected = Values(*Newest(shard_.get()));
  for (const size_t most : {size_t{5000}, 2 * kBlockElements}) {
    Make(spec);
    for (const uint64_t step : {1, 0}) {
      const absl::Span<const float> values(gradients[step]);
      std::vector<WirePiece> pieces = {MakeWirePiece(1, 0, values.subspan(kFirst))};
      for (uint64_t offset = 0, count; offset < kFirst; offset += count) {
        count = std::min<uint64_t>(1 + random() % most, kFirst - offset);
        pieces.push_back(MakeWirePiece(0, offset, values.subspan(offset, count), 1001));
      }
      std::shuffle(pieces.begin(), pieces.end(), random);
      while (!pieces.empty()) {
        DecodedPush message = MakeMessage(spec, step, /*push_id=*/step, 3);
        for (size_t i = 0; i < 3 && !pieces.empty(); ++i) {
          message.pieces.push_back(std::move(pieces.back()));
          pieces.pop_back();
        }
        shard_->Push(1, std::move(message), [](const PushResponse&) {});
      }
    }
    ASSERT_EQ(Newest(shard_.get())->version, 1);
    EXPECT_EQ(Values(*Newest(shard_.get())), expected) << "pieces of up to " << most;
  }
}

TEST_F(ShardTest, LastSynchronousVersionMayHaveFewerContributions) {
  Make(MakeSpec({1}, /*replicas=*/3, /*total_steps=*/4));
  for (uint64_t step = 0; step < 3; ++step) PushWhole(shard_.get(), step, step, {1.0f});
  EXPECT_EQ(PushWhole(shard_.get(), 3, 3, {1.0f}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Newest(shard_.get())->version, 2);
  EXPECT_EQ(Newest(shard_.get())->applied.watermark(), 4);
}

TEST_F(ShardTest, SingleContributionIsAppliedAsItIs) {
  Make(MakeSpec({1}, /*replicas=*/1));
  PushWhole(shard_.get(), 0, 1, {0.1f}, /*examples=*/50);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-0.1f));
}

TEST_F(ShardTest, NoMessageBreaksIt) {
  const auto seed = static_cast<unsigned>(TestSeed());
  std::mt19937_64 random(seed);
  for (const uint32_t replicas : {0, 3}) {
    const ShardSpec spec = MakeSpec({10, 3}, replicas, /*total_steps=*/20);
    Make(spec);
    // Mostly small numbers, which are nearly right, and some from the far end.
    const auto number = [&](uint64_t below) {
      return random() % 16 == 0 ? ~uint64_t{0} - random() % 3 : random() % below;
    };
    for (int i = 0; i < 20'000; ++i) {
      DecodedPush message =
          MakeMessage(spec, number(22), number(8), static_cast<uint32_t>(number(3)));
      if (random() % 50 == 0) message.header.set_generation(number(3));
      for (uint64_t pieces = random() % 3; pieces > 0; --pieces) {
        message.pieces.push_back(MakeWirePiece(static_cast<uint32_t>(number(3)), number(11),
                                               std::vector<float>(random() % 11, 1)));
      }
      const uint64_t stream = random() % 3;
      int answers = 0;
      const bool answered =
          shard_->Push(stream, std::move(message), [&](const PushResponse&) { ++answers; });
      ASSERT_EQ(answers, answered ? 1 : 0);
      if (random() % 30 == 0) shard_->StreamEnded(stream);
      const StatePtr state = Newest(shard_.get());
      ASSERT_EQ(state->applied.size(),
                replicas == 0 ? state->version : std::min<uint64_t>(20, 3 * state->version));
      ASSERT_THAT(Values(*state), Each(-static_cast<float>(state->version)));
    }
  }
}

TEST_F(ShardTest, RootHasAStepBeforeItIsAcknowledged) {
  Make(MakeSpec({10}));
  EXPECT_EQ(root_->state->version, 0);
  EXPECT_EQ(root_->generation, 1);
  DecodedPush message = MakeMessage(shard_->plan().spec, /*step=*/3, /*push_id=*/1);
  message.pieces.push_back(MakeWirePiece(0, 0, std::vector<float>(10, 1)));
  shard_->Push(/*stream=*/1, std::move(message), [this](const PushResponse&) {
    EXPECT_TRUE(root_->state->applied.Contains(3));
    EXPECT_THAT(Values(*root_->state), Each(-1));
  });
  EXPECT_EQ(root_->state, Newest(shard_.get()));
  EXPECT_FALSE(root_->more_acknowledged);
}

TEST_F(ShardTest, RootHasBothVersionsBeforeAPullGetsTheNewOne) {
  Make(MakeSpec({10}, /*replicas=*/1));
  shard_->Read(Version(1), [this](const absl::StatusOr<StatePtr>& state) {
    EXPECT_EQ(root_->state, *state);
    EXPECT_EQ(root_->previous->version, 0);
  });
  PushPart(1, 0, 1, 0, 10, 1);
  EXPECT_EQ(root_->state->version, 1);
}

TEST_F(ShardTest, RootSaysThatContributionsAreHeldBeforeTheyAreAcknowledged) {
  Make(MakeSpec({10}, /*replicas=*/2));
  DecodedPush message = MakeMessage(shard_->plan().spec, /*step=*/0, /*push_id=*/1);
  message.pieces.push_back(MakeWirePiece(0, 0, std::vector<float>(10, 1)));
  shard_->Push(/*stream=*/1, std::move(message), [this](const PushResponse& answer) {
    EXPECT_EQ(answer.outcome(), PushResponse::HELD);
    EXPECT_TRUE(root_->more_acknowledged);
  });
  ASSERT_TRUE(shard_->SetGeneration(2).ok());
  EXPECT_EQ(root_->generation, 2);
  EXPECT_TRUE(root_->more_acknowledged) << "it still holds the contribution";
}

TEST_F(ShardTest, RootOfAVersionWithNothingHeldLacksNothing) {
  Make(MakeSpec({10}, /*replicas=*/2));
  PushPart(1, /*step=*/0, /*push_id=*/1, 0, 10, 1);
  PushPart(1, /*step=*/1, /*push_id=*/2, 0, 10, 1);
  EXPECT_EQ(root_->state->version, 1);
  EXPECT_FALSE(root_->more_acknowledged);
}

// A successor that is killed before the coordinator has asked it what it has must not look whole to
// the next one.
TEST_F(ShardTest, WhatWasMissingAtTheStartIsMissingUntilAGenerationIsSet) {
  ShardContents contents;
  contents.more_acknowledged = true;
  contents.epoch = 5;
  contents.origin = ShardStatus::ARENA;
  MakeFrom(MakeSpec({10}, /*replicas=*/2), std::move(contents));
  EXPECT_TRUE(root_->more_acknowledged);
  EXPECT_EQ(root_->epoch, 5);
  EXPECT_EQ(shard_->Status().origin(), ShardStatus::ARENA);
  EXPECT_EQ(shard_->Status().epoch(), 5);
  ASSERT_TRUE(shard_->SetGeneration(2).ok());
  EXPECT_FALSE(root_->more_acknowledged);
}

TEST_F(ShardTest, ForgottenRootStaysAway) {
  Make(MakeSpec({10}));
  shard_->ForgetRoot();
  EXPECT_FALSE(root_.has_value());
  PushPart(1, 0, 1, 0, 10, 1);
  EXPECT_FALSE(root_.has_value());
}

// A shard that had lost steps served its old values at the old generation, and took pushes.
TEST_F(ShardTest, ClosedShardServesNobodyUntilAGreaterGenerationIsSet) {
  Make(MakeSpec({10}), nullptr, /*closed=*/true);
  EXPECT_TRUE(shard_->Status().closed());
  const absl::optional<PushResponse> push = PushPart(1, 0, 1, 0, 10, 1);
  EXPECT_EQ(push->code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(push->message(), HasSubstr("came back at version 0"));
  EXPECT_THAT(push->message(), HasSubstr("set a greater generation than 1"));
  PullRequest pull;
  pull.set_generation(1);
  absl::Status pulled;
  shard_->Read(pull, [&](absl::StatusOr<StatePtr> state) { pulled = state.status(); });
  EXPECT_EQ(pulled.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard_->PinCut(1, "cut").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard_->CheckServes(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(shard_->UnpinCut(1, "cut").ok());
  ASSERT_TRUE(shard_->SetGeneration(1).ok());
  EXPECT_TRUE(shard_->Status().closed());

  ASSERT_TRUE(shard_->SetGeneration(2).ok());
  EXPECT_FALSE(shard_->Status().closed());
  EXPECT_TRUE(shard_->PinCut(2, "cut").ok());
  EXPECT_TRUE(shard_->CheckServes(2).ok());
}

TEST_F(ShardTest, CallsOfOtherGenerationsAreRefused) {
  Make(MakeSpec({10}));
  ASSERT_TRUE(shard_->PinCut(1, "cut").ok());
  for (const uint64_t other : {0, 2}) {
    EXPECT_EQ(shard_->PinCut(other, "cut").status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(shard_->UnpinCut(other, "cut").code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(shard_->Pinned(other, "cut").status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(shard_->CheckServes(other).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(shard_->CheckNotOlder(other).ok(), other == 2);
  }
}

// Whoever computed it reported it to the rule that came after, which crashed.
TEST_F(ShardTest, VersionThatIsComputedWhileTheShardRetiresCountsForNothing) {
  for (const uint32_t replicas : {0, 1}) {
    Make(MakeSpec({10}, replicas),
         std::make_unique<CallingOptimizer>([this] { EXPECT_TRUE(shard_->Retire(1).ok()); }));
    const absl::optional<PushResponse> answer = PushPart(1, 0, 1, 0, 10, 1);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(Newest(shard_.get())->version, 0);
    EXPECT_TRUE(shard_->Status().retired());
  }
}

TEST_F(ShardTest, RefusingShardRefusesEverything) {
  Make(MakeSpec({10}));
  PushPart(1, 0, 1, 0, 9, 1);
  shard_->Refuse(absl::NotFoundError("was dropped"));
  EXPECT_EQ(PushPart(1, 0, 1, 9, 1, 1)->message(), "was dropped");
  EXPECT_FALSE(shard_->PinCut(1, "cut").ok());
  EXPECT_FALSE(shard_->SetGeneration(2).ok());
}

}  // namespace
}  // namespace millrace::ps
