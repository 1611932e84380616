// Gradients of 16 bits: what a shard makes of them is what it makes of their rounded numbers as
// float32, to the bit, norms included; and they take the memory that those take.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/exact_square_sum.h"
#include "common/wire/encoding.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ps/shard/shard_fixture.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeNarrowPiece;
using ::millrace::testing::MakeSpec;
using ::millrace::testing::MakeWirePiece;
using ::millrace::testing::Newest;
using ::millrace::testing::PushWhole;
using ::millrace::testing::Values;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr Encoding::Kind kNarrow[] = {Encoding::FLOAT16, Encoding::BFLOAT16};

// Larger than a block, and a smaller one.
const std::vector<uint64_t> kTwoLengths = {kBlockElements + 77, 5};
constexpr size_t kTwoTogether = kBlockElements + 82;

std::vector<float> RoundedTo(Encoding::Kind encoding, absl::Span<const float> values) {
  std::vector<char> bytes(values.size() * WidthOf(encoding));
  EXPECT_EQ(Narrow(values, encoding, bytes.data()), values.size());
  std::vector<float> rounded(values.size());
  Widen(encoding, bytes.data(), absl::MakeSpan(rounded));
  return rounded;
}

// A step's gradient from -1 to 1 in pieces, and its numbers as the shard has them.
struct PiecedGradient {
  std::vector<WirePiece> pieces;
  std::vector<float> numbers;
};

class NarrowGradientsTest : public ShardTest {
 protected:
  // Of several encodings, cut anywhere. `longest`: elements of a piece.
  PiecedGradient MixedGradient(size_t longest) {
    PiecedGradient gradient;
    for (uint32_t slice = 0; slice < kTwoLengths.size(); ++slice) {
      for (uint64_t offset = 0; offset < kTwoLengths[slice];) {
        const size_t count = std::min<size_t>(kTwoLengths[slice] - offset, 1 + random_() % longest);
        AddPiece(slice, offset, count, &gradient);
        offset += count;
      }
    }
    return gradient;
  }

  void AddPiece(uint32_t slice, uint64_t offset, size_t count, PiecedGradient* gradient) {
    std::vector<float> values(count);
    for (float& each : values) each = static_cast<float>(random_()) * 0x1p-31f - 1;
    if (random_() % 4 == 0) {
      gradient->pieces.push_back(MakeWirePiece(slice, offset, values, /*slice_bytes=*/4099));
    } else {
      const Encoding::Kind encoding = kNarrow[random_() % 2];
      gradient->pieces.push_back(MakeNarrowPiece(encoding, slice, offset, values, 4099));
      values = RoundedTo(encoding, values);
    }
    gradient->numbers.insert(gradient->numbers.end(), values.begin(), values.end());
  }

  // All pieces, each in a message of its own, in any order. Returns the answer to the last one.
  absl::optional<PushResponse> PushPieces(std::vector<WirePiece> pieces, uint64_t step,
                                          uint32_t examples) {
    std::shuffle(pieces.begin(), pieces.end(), random_);
    absl::optional<PushResponse> answer;
    for (const WirePiece& piece : pieces) {
      answer = PushPiece(/*stream=*/1, step, /*push_id=*/step + 1, piece, examples);
    }
    return answer;
  }

  // `count` elements of slice 0 that are all 1. Returns the answer, if there is one now.
  absl::optional<PushResponse> PushNarrow(Encoding::Kind encoding, uint64_t stream, uint64_t step,
                                          uint64_t push_id, uint64_t offset, size_t count) {
    return PushPiece(stream, step, push_id,
                     MakeNarrowPiece(encoding, 0, offset, std::vector<float>(count, 1)));
  }

  std::mt19937 random_{1};
};

class EveryUpdateOfNarrowGradientsTest : public NarrowGradientsTest,
                                         public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(All, EveryUpdateOfNarrowGradientsTest,
                         ::testing::Values("sgd { learning_rate: 0.1 }",
                                           "sgd { learning_rate: 0.1 } clip_norm: 3",
                                           "adam {} clip_value: 0.5", "lamb { learning_rate: 0.1 }",
                                           "lamb { learning_rate: 0.1 } clip_norm: 3"));

TEST_P(EveryUpdateOfNarrowGradientsTest, IsThatOfTheirNumbersAsFloat32) {
  for (const uint32_t replicas : {0, 1, 3}) {
    ShardSpec spec = MakeSpec(kTwoLengths, replicas, /*total_steps=*/100);
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(GetParam(), spec.mutable_optimizer()));
    for (ShardSlice& slice : *spec.mutable_slices()) {
      slice.mutable_initial_value()->mutable_uniform()->set_low(-1);
      slice.mutable_initial_value()->mutable_uniform()->set_high(1);
    }
    std::vector<PiecedGradient> gradients;
    for (uint64_t step = 0; step < 6; ++step) gradients.push_back(MixedGradient(30'000));
    Make(spec);
    for (uint64_t step = 0; step < gradients.size(); ++step) {
      ASSERT_EQ(
          PushWhole(shard_.get(), step, step + 1, gradients[step].numbers, 1 + step % 3).code(), 0);
    }
    const auto expected = AllArrays();
    Make(spec);
    for (uint64_t step = 0; step < gradients.size(); ++step) {
      const auto answer = PushPieces(gradients[step].pieces, step, 1 + step % 3);
      ASSERT_TRUE(answer.has_value());
      ASSERT_EQ(answer->code(), 0) << answer->message();
    }
    EXPECT_EQ(AllArrays(), expected) << replicas << " replicas";
  }
}

TEST_F(NarrowGradientsTest, WholeBlocksAreTakenAsFloat32) {
  for (const Encoding::Kind encoding : kNarrow) {
    for (const uint32_t replicas : {0, 2}) {
      Make(MakeSpec({kBlockElements + 3}, replicas));
      for (uint64_t step = 0; step < 2; ++step) {
        PushNarrow(encoding, 1, step, step + 1, kBlockElements, 3);
        const auto answer = PushNarrow(encoding, 1, step, step + 1, 0, kBlockElements);
        ASSERT_TRUE(answer.has_value());
        EXPECT_EQ(answer->code(), 0) << answer->message();
      }
      EXPECT_THAT(Values(*Newest(shard_.get())), Each(replicas == 0 ? -2 : -1));
    }
  }
}

TEST_F(NarrowGradientsTest, NormOverAllShardsIsThatOfTheirNumbers) {
  ShardSpec spec = MakeSpec(kTwoLengths, /*replicas=*/1);
  spec.mutable_optimizer()->set_global_clip_norm(3);
  const PiecedGradient gradient = MixedGradient(30'000);
  MeasureVersionRequest measure;
  measure.set_generation(1);
  ApplyVersionRequest apply;
  apply.set_generation(1);
  std::vector<std::vector<std::vector<float>>> arrays;
  for (const bool narrow : {true, false}) {
    Make(spec);
    if (narrow) {
      PushPieces(gradient.pieces, 0, 1);
    } else {
      PushWhole(shard_.get(), 0, 1, gradient.numbers);
    }
    const auto measured = shard_->MeasureVersion(measure);
    ASSERT_TRUE(measured.ok()) << measured.status();
    ASSERT_EQ(measured->state(), MeasureVersionResponse::MEASURED);
    ExactSquareSum expected;
    expected.Add(gradient.numbers);
    const auto sum = ExactSquareSum::FromWords(
        {measured->square_sum().data(), static_cast<size_t>(measured->square_sum_size())},
        /*finite=*/true);
    EXPECT_EQ(sum->ToDouble(), expected.ToDouble()) << narrow;
    apply.set_norm(std::sqrt(sum->ToDouble()));
    ASSERT_TRUE(shard_->ApplyVersion(apply).ok());
    arrays.push_back(AllArrays());
  }
  EXPECT_EQ(arrays[0], arrays[1]);
}

TEST_F(NarrowGradientsTest, NoNumbersAreRefusedByTheirElement) {
  Make(MakeSpec({2000}));
  std::vector<float> values(2000, 1);
  values[1500] = INFINITY;
  const auto answer =
      PushPiece(/*stream=*/1, /*step=*/3, /*push_id=*/1,
                MakeNarrowPiece(Encoding::FLOAT16, 0, 0, values, /*slice_bytes=*/99));
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->message(), HasSubstr("step 3: the gradient of variable 'variable_0' has inf "
                                           "at element 1500"));
}

// Each took twice what was counted when it came.
TEST_F(NarrowGradientsTest, ThoseUnderWayAreBoundedByWhatTheyTakeAsFloat32) {
  for (const Encoding::Kind encoding : kNarrow) {
    spare_.emplace(100'000);
    Make(MakeSpec({1000}));
    absl::optional<PushResponse> answer;
    uint64_t push_id = 0;
    while (!answer.has_value() && push_id < 1000) {
      ++push_id;
      answer = PushNarrow(encoding, /*stream=*/push_id, /*step=*/push_id, push_id, 0, 999);
    }
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(answer->message(), HasSubstr("no memory for more gradients"));
    EXPECT_GE(shard_->Status().memory_bytes(), 4000 + (push_id - 1) * 999 * sizeof(float));
    EXPECT_LE(shard_->Status().memory_bytes(), 4000 + 8000 + 100'000);
    EXPECT_EQ(PushNarrow(encoding, 1, 1, 1, 999, 1)->outcome(), PushResponse::APPLIED)
        << "it had begun";
    for (uint64_t stream = 1; stream <= push_id; ++stream) shard_->StreamEnded(stream);
    EXPECT_EQ(spare_->used(), 0);
    shard_.reset();
  }
}

// Nothing is made of small pieces but the gradient that they are gathered in.
TEST_F(NarrowGradientsTest, ContributionInSmallPiecesTakesAGradientAndNoMore) {
  spare_.emplace(7000);
  Make(MakeSpec({1600}, /*replicas=*/2));
  PushTwoInSmallPieces([this](uint64_t step, uint64_t offset, size_t count) {
    return PushNarrow(Encoding::BFLOAT16, 1, step, /*push_id=*/step + 1, offset, count);
  });
  EXPECT_THAT(Values(*Newest(shard_.get())), Each(-1));
  EXPECT_EQ(spare_->used(), 0);
}

}  // namespace
}  // namespace millrace::ps
