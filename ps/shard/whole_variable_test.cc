// Optimizers that take norms of variables: neither pieces nor their order nor what becomes of a
// push or of a shard meanwhile may show in the bits.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
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
using ::testing::ElementsAre;

// Larger than a block, and smaller ones.
const std::vector<uint64_t> kLengths = {kBlockElements + 77, 5, 1000};
constexpr size_t kAll = kBlockElements + 1082;

ShardSpec NormedSpec(const std::string& optimizer, uint32_t replicas = 0,
                     const std::vector<uint64_t>& lengths = kLengths) {
  ShardSpec spec = MakeSpec(lengths, replicas, /*total_steps=*/100);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(optimizer, spec.mutable_optimizer()));
  for (ShardSlice& slice : *spec.mutable_slices()) {
    slice.mutable_initial_value()->mutable_uniform()->set_low(-1);
    slice.mutable_initial_value()->mutable_uniform()->set_high(1);
  }
  return spec;
}

// From -1 to 1.
std::vector<float> UniformGradient(size_t count, uint64_t step) {
  std::minstd_rand random(static_cast<unsigned>(step + 1));
  std::vector<float> gradient(count);
  for (float& g : gradient) g = static_cast<float>(random()) * 0x1p-30f - 1;
  return gradient;
}

// Values and slots, block by block.
std::vector<std::vector<float>> Arrays(const ShardState& state) {
  std::vector<std::vector<float>> arrays;
  for (const auto& block : state.blocks) {
    for (int i = 0; i <= block->slots(); ++i) {
      arrays.emplace_back(block->array(i), block->array(i) + block->elements());
    }
  }
  return arrays;
}

class WholeVariableTest : public ShardTest {
 protected:
  PushResponse Push(uint64_t step, uint32_t examples = 1) {
    return PushWhole(shard_.get(), step, ++push_id_, UniformGradient(kAll, step), examples);
  }

  // The pieces of a step, cut anywhere, in any order.
  std::vector<WirePiece> RandomPieces(uint64_t step) {
    const std::vector<float> gradient = UniformGradient(kAll, step);
    const absl::Span<const float> all(gradient);
    std::vector<WirePiece> pieces;
    size_t begin = 0;
    for (uint32_t slice = 0; slice < kLengths.size(); ++slice) {
      for (uint64_t offset = 0; offset < kLengths[slice];) {
        const size_t count = std::min<size_t>(kLengths[slice] - offset, 1 + random_() % 30'000);
        pieces.push_back(
            MakeWirePiece(slice, offset, all.subspan(begin + offset, count), /*slice_bytes=*/4099));
        offset += count;
      }
      begin += kLengths[slice];
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    return pieces;
  }

  // Sends pieces [begin, end) of a push, each in a message of its own. Returns the answer, if there
  // is one now.
  absl::optional<PushResponse> Send(const std::vector<WirePiece>& pieces, size_t begin, size_t end,
                                    uint64_t step, uint64_t push_id, uint32_t examples = 1) {
    absl::optional<PushResponse> answer;
    for (size_t i = begin; i < end; ++i) {
      DecodedPush message = MakeMessage(shard_->plan().spec, step, push_id, examples);
      message.pieces.push_back(pieces[i]);
      shard_->Push(/*stream=*/push_id, std::move(message),
                   [&](const PushResponse& got) { answer = got; });
    }
    return answer;
  }

  absl::optional<PushResponse> PushInPieces(uint64_t step, uint32_t examples = 1) {
    const std::vector<WirePiece> pieces = RandomPieces(step);
    return Send(pieces, 0, pieces.size(), step, ++push_id_, examples);
  }

  uint64_t push_id_ = 0;
  std::mt19937 random_{1};
};

class EveryNormTest : public WholeVariableTest, public ::testing::WithParamInterface<const char*> {
 protected:
  // After the steps, each pushed whole.
  std::vector<std::vector<float>> Expected(uint32_t replicas, const std::vector<uint64_t>& steps) {
    Make(NormedSpec(GetParam(), replicas));
    for (const uint64_t step : steps) {
      EXPECT_EQ(Push(step, /*examples=*/1 + step % 3).code(), 0);
    }
    return Arrays(*Newest(shard_.get()));
  }
};

INSTANTIATE_TEST_SUITE_P(All, EveryNormTest,
                         ::testing::Values("sgd { learning_rate: 0.1 } clip_norm: 3",
                                           "adam {} clip_norm: 1000", "lamb { learning_rate: 0.1 }",
                                           "lamb { learning_rate: 0.1 } clip_norm: 3",
                                           "lamb { learning_rate: 0.1 } clip_value: 0.5"));

TEST_P(EveryNormTest, PiecesAndTheirOrderChangeNoBit) {
  for (const uint32_t replicas : {0, 1, 3}) {
    const auto expected = Expected(replicas, {0, 1, 2, 3, 4, 5});
    Make(NormedSpec(GetParam(), replicas));
    for (uint64_t step = 0; step < 6; ++step) {
      ASSERT_EQ(PushInPieces(step, /*examples=*/1 + step % 3)->code(), 0);
    }
    EXPECT_EQ(Arrays(*Newest(shard_.get())), expected) << replicas << " replicas";
  }
}

TEST_P(EveryNormTest, ContributionsMayComeInAnyOrder) {
  const auto expected = Expected(/*replicas=*/3, {0, 1, 2});
  for (const std::vector<uint64_t>& order : {std::vector<uint64_t>{2, 0, 1}, {1, 2, 0}}) {
    Make(NormedSpec(GetParam(), /*replicas=*/3));
    for (const uint64_t step : order) PushInPieces(step, /*examples=*/1 + step % 3);
    EXPECT_EQ(Newest(shard_.get())->version, 1);
    EXPECT_EQ(Arrays(*Newest(shard_.get())), expected);
  }
}

// The first one has the turn, and is computed again on what the other one made.
TEST_P(EveryNormTest, OvertakenPushIsComputedAgainOnTheOthersResult) {
  const auto expected = Expected(/*replicas=*/0, {0, 2, 1});
  Make(NormedSpec(GetParam()));
  Push(0);
  const std::vector<WirePiece> pieces = RandomPieces(1);
  const uint64_t push_id = ++push_id_;
  EXPECT_FALSE(Send(pieces, 0, pieces.size() - 1, 1, push_id).has_value());
  EXPECT_EQ(PushInPieces(2)->outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Send(pieces, pieces.size() - 1, pieces.size(), 1, push_id)->outcome(),
            PushResponse::APPLIED);
  EXPECT_EQ(Arrays(*Newest(shard_.get())), expected);
}

TEST_P(EveryNormTest, BrokenAndRepeatedPushesLeaveNoTrace) {
  const auto expected = Expected(/*replicas=*/0, {0, 1});
  Make(NormedSpec(GetParam()));
  Push(0);
  const std::vector<WirePiece> pieces = RandomPieces(1);
  Send(pieces, 0, pieces.size() - 1, 1, ++push_id_);
  shard_->StreamEnded(push_id_);
  EXPECT_EQ(Newest(shard_.get())->version, 1);
  EXPECT_EQ(PushInPieces(1)->outcome(), PushResponse::APPLIED);
  EXPECT_EQ(PushInPieces(1)->outcome(), PushResponse::ALREADY_APPLIED);
  EXPECT_EQ(Arrays(*Newest(shard_.get())), expected);
}

TEST_P(EveryNormTest, AnotherLifeGoesOnWithTheSameBits) {
  for (const uint32_t replicas : {0, 3}) {
    const auto expected = Expected(replicas, {0, 1, 2, 3, 4, 5});
    for (const uint64_t before : {1, 2, 4}) {
      const ShardSpec spec = NormedSpec(GetParam(), replicas);
      Make(spec);
      for (uint64_t step = 0; step < before; ++step) Push(step, /*examples=*/1 + step % 3);
      MakeFrom(spec, shard_->Contents());
      for (uint64_t step = before; step < 6; ++step) Push(step, /*examples=*/1 + step % 3);
      EXPECT_EQ(Arrays(*Newest(shard_.get())), expected) << replicas << " replicas, " << before;
    }
  }
}

TEST_P(EveryNormTest, ShardThatSteppedBackRepeatsItsBits) {
  const auto expected = Expected(/*replicas=*/2, {0, 1, 2, 3});
  Make(NormedSpec(GetParam(), /*replicas=*/2));
  Push(0, /*examples=*/1);
  Push(1, /*examples=*/2);
  ShardContents cut;
  cut.state = Newest(shard_.get());
  cut.epoch = 1;
  cut.stepped_back_to.set_version(1);
  Push(2, /*examples=*/3);
  Push(3, /*examples=*/1);
  ASSERT_TRUE(shard_->StepBack(/*generation=*/1, std::move(cut)).ok());
  EXPECT_EQ(Newest(shard_.get())->version, 1);
  Push(3, /*examples=*/1);
  PushInPieces(2, /*examples=*/3);
  EXPECT_EQ(Arrays(*Newest(shard_.get())), expected);
}

// Each shard has whole variables, so it does not matter which others are beside them.
TEST_P(EveryNormTest, TwoShardsGiveTheBitsOfOne) {
  const auto expected = Expected(/*replicas=*/0, {0, 1});
  std::vector<std::vector<float>> arrays;
  for (const int shard : {0, 1}) {
    ShardSpec spec = NormedSpec(GetParam());
    const size_t first = kLengths[0] + kLengths[1];
    shard == 0 ? spec.mutable_slices()->RemoveLast() : spec.mutable_slices()->DeleteSubrange(0, 2);
    Make(spec);
    for (const uint64_t step : {0, 1}) {
      const std::vector<float> gradient = UniformGradient(kAll, step);
      const auto part = shard == 0 ? absl::MakeConstSpan(gradient).first(first)
                                   : absl::MakeConstSpan(gradient).subspan(first);
      PushWhole(shard_.get(), step, ++push_id_, part);
    }
    for (auto& array : Arrays(*Newest(shard_.get()))) arrays.push_back(std::move(array));
  }
  EXPECT_EQ(arrays, expected);
}

TEST_F(WholeVariableTest, EachVariableIsClippedByItsOwnNorm) {
  ShardSpec spec = NormedSpec("sgd { learning_rate: 1 } clip_norm: 2");
  for (ShardSlice& slice : *spec.mutable_slices()) slice.mutable_initial_value()->set_constant(0);
  Make(spec);
  std::vector<float> gradient = UniformGradient(kAll, 7);
  for (size_t i = kLengths[0]; i < kLengths[0] + 5; ++i) gradient[i] = 0.5f;  // A norm below 2.
  PushWhole(shard_.get(), 0, 1, gradient);
  const std::vector<float> values = Values(*Newest(shard_.get()));
  size_t begin = 0;
  for (const uint64_t length : kLengths) {
    double square = 0;
    for (size_t i = begin; i < begin + length; ++i) {
      square += static_cast<double>(gradient[i]) * gradient[i];
    }
    const double factor = std::min(1.0, 2 / std::sqrt(square));
    for (size_t i = begin; i < begin + length; ++i) {
      ASSERT_NEAR(values[i], -factor * gradient[i], 1e-6 * std::abs(factor * gradient[i])) << i;
    }
    begin += length;
  }
}

TEST_F(WholeVariableTest, SynchronousNormIsThatOfTheMean) {
  ShardSpec spec = MakeSpec({2}, /*replicas=*/2, /*total_steps=*/100);
  spec.mutable_optimizer()->set_clip_norm(5);
  Make(spec);
  PushWhole(shard_.get(), 0, 1, {12, 0}, /*examples=*/1);
  PushWhole(shard_.get(), 1, 2, {0, 16}, /*examples=*/1);
  EXPECT_THAT(Values(*Newest(shard_.get())), ElementsAre(-3, -4));
}

// A trained slice, a frozen one, a moving average; the slots of the latter stay as they are.
TEST_F(WholeVariableTest, FrozenSlicesAndStatisticsAreLeftAlone) {
  for (const char* optimizer : {"sgd { learning_rate: 1 } clip_norm: 5", "lamb {} clip_norm: 5"}) {
    ShardSpec spec = MakeSpec({2, kBlockElements + 1, 1}, /*replicas=*/0, /*total_steps=*/100);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(optimizer, spec.mutable_optimizer()));
    spec.mutable_slices(1)->mutable_update()->mutable_frozen();
    spec.mutable_slices(2)->mutable_update()->mutable_moving_average()->set_momentum(0.75);
    Make(spec);
    const StatePtr before = Newest(shard_.get());
    EXPECT_EQ(PushWhole(shard_.get(), 0, 1, {30, 40, 8}).outcome(), PushResponse::APPLIED);
    const StatePtr after = Newest(shard_.get());
    EXPECT_EQ(after->blocks[1], before->blocks[1]);
    EXPECT_EQ(after->blocks[2], before->blocks[2]);
    EXPECT_EQ(after->blocks.back()->values()[0], 2) << "not clipped";
    for (int slot = 1; slot <= after->blocks.back()->slots(); ++slot) {
      EXPECT_EQ(after->blocks.back()->array(slot)[0], 0);
    }
    if (after->blocks[0]->slots() == 0) {
      EXPECT_THAT(after->blocks[0]->values(), ElementsAre(-3, -4));
    }
  }
}

TEST_F(WholeVariableTest, ShardThatIsAllFrozenAdvancesWithEachEmptyPush) {
  ShardSpec spec = NormedSpec("lamb {}");
  for (ShardSlice& slice : *spec.mutable_slices()) slice.mutable_update()->mutable_frozen();
  Make(spec);
  EXPECT_EQ(PushWhole(shard_.get(), 0, 1, {}).outcome(), PushResponse::APPLIED);
  EXPECT_EQ(Newest(shard_.get())->version, 1);
}

}  // namespace
}  // namespace millrace::ps
