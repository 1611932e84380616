#include "ps/dense/push_assembly.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class PlacePiecesTest : public ::testing::Test {
 protected:
  PlacePiecesTest() {
    for (const uint64_t length : {10, 20'000}) {
      ShardSlice& slice = *spec_.add_slices();
      slice.set_variable_name(spec_.slices_size() == 1 ? "bias" : "kernel");
      slice.mutable_slice()->set_offset(100);
      slice.mutable_slice()->set_length(length);
    }
  }

  static WirePiece MakePiece(uint32_t slice, uint64_t offset, const std::vector<float>& values) {
    return {slice, offset,
            FloatSlices({grpc::Slice(values.data(), values.size() * sizeof(float))})};
  }

  absl::StatusOr<PlacedPieces> Place(std::vector<WirePiece> pieces) {
    return PlacePieces(spec_, *BlockLayout::Create(spec_), std::move(pieces));
  }

  ShardSpec spec_;
};

TEST_F(PlacePiecesTest, JoinsNeighboursInWhateverOrder) {
  const auto placed = Place({MakePiece(1, 0, {1, 2}), MakePiece(0, 5, {1, 2, 3, 4, 5}),
                             MakePiece(1, 7, {1}), MakePiece(0, 3, {1, 2})});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_THAT(placed->ranges, ElementsAre(Pair(3, 12), Pair(17, 18)));
  EXPECT_GE(placed->memory_bytes, 10 * sizeof(float));
}

TEST_F(PlacePiecesTest, SlicesWithAFrozenOneBetweenThemAreNeighbours) {
  ShardSlice kernel = spec_.slices(1);
  spec_.mutable_slices(1)->mutable_update()->mutable_frozen();
  *spec_.add_slices() = kernel;
  const auto placed = Place({MakePiece(2, 0, {1, 2}), MakePiece(0, 8, {1, 2})});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_THAT(placed->ranges, ElementsAre(Pair(8, 12)));
}

TEST_F(PlacePiecesTest, RefusesWhatIsFrozen) {
  spec_.mutable_slices(1)->mutable_update()->mutable_frozen();
  const auto placed = Place({MakePiece(0, 5, {1, 2}), MakePiece(1, 4, {1, 2})});
  EXPECT_EQ(placed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(placed.status().message()), HasSubstr("piece.slice: 1; it is frozen"));
}

TEST_F(PlacePiecesTest, RefusesAnEncodingThatTheShardIsNotToTake) {
  spec_.set_wire(Encoding::FLOAT16);
  EXPECT_EQ(std::string(Place({MakePiece(0, 5, {1, 2})}).status().message()),
            "piece.data: FLOAT32, for the gradient of variable 'bias'; must be FLOAT16, in "
            "piece.float16, as precision.wire of the job says: a synchronous job's bits would "
            "depend on which worker has a step. Train it with workers that do so, or set "
            "precision.wire to what they do, or synchronous.allow_mixed_workers");
  spec_.mutable_slices(0)->mutable_update()->mutable_moving_average();
  EXPECT_TRUE(Place({MakePiece(0, 5, {1, 2})}).ok()) << "statistics are not rounded";
  EXPECT_EQ(Place({MakePiece(1, 5, {1, 2})}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PlacePiecesTest, RefusesWhatOverlaps) {
  const auto placed = Place({MakePiece(0, 5, {1, 2}), MakePiece(0, 4, {1, 2})});
  EXPECT_EQ(placed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(placed.status().message()), HasSubstr("overlaps"));
}

// Each was an insertion into a tree, under the shard's lock.
TEST_F(PlacePiecesTest, RefusesThousandsOfSeparateElements) {
  std::vector<WirePiece> together;
  std::vector<WirePiece> apart;
  for (uint64_t i = 0; i < 2 * kMaxRanges; ++i) {
    together.push_back(MakePiece(1, i, {1}));
    apart.push_back(MakePiece(1, 2 * i, {1}));
  }
  EXPECT_TRUE(Place(together).ok());
  const auto placed = Place(apart);
  EXPECT_EQ(placed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(placed.status().message()), HasSubstr("8192 separate ranges"));
}

// It was applied, and the next step, which pulled it, was blamed.
TEST_F(PlacePiecesTest, NamesTheElementThatIsNoNumber) {
  const auto placed = Place({MakePiece(0, 0, {1, 2}), MakePiece(1, 40, {1, std::nanf(""), 2})});
  EXPECT_EQ(placed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(placed.status().message()),
              HasSubstr("variable 'kernel' has nan at element 141"));
}

class GatherTest : public PlacePiecesTest {
 protected:
  static constexpr uint64_t kBytesOfBlock = kBlockElements * sizeof(float) + kPieceOverhead;

  // Slice 0 is a block of 10 elements, slice 1 two.
  GatherTest() { spec_.mutable_slices(1)->mutable_slice()->set_length(kBlockElements + 100); }

  PlacedPieces Placed(std::vector<WirePiece> pieces) {
    return *PlacePieces(spec_, layout(), std::move(pieces));
  }

  void Gather(const PlacedPieces& message) {
    const absl::Status status =
        push_.Gather(layout(), /*stream=*/1, message, [this](PushPieces pieces, uint64_t bytes) {
          counted_ += bytes;
          return pieces;
        });
    EXPECT_TRUE(status.ok()) << status;
  }

  uint64_t Elements() const {
    uint64_t elements = 0;
    for (const PushPieces& pieces : push_.pieces()) elements += ElementCount(pieces);
    return elements;
  }

  BlockLayout layout() const { return *BlockLayout::Create(spec_); }

  PushAssembly push_{/*push_id=*/1, /*step=*/0, /*examples=*/32};
  uint64_t counted_ = 0;
};

TEST_F(GatherTest, MessageThatComesTwiceIsGatheredOnce) {
  const PlacedPieces message = Placed(
      {MakePiece(0, 0, std::vector<float>(10, 1)), MakePiece(1, 5, std::vector<float>(7, 2))});
  Gather(message);
  EXPECT_EQ(Elements(), 10 + kBlockElements);
  const uint64_t counted = counted_;
  Gather(message);
  EXPECT_EQ(push_.arrived(), 17u);
  EXPECT_EQ(Elements(), 10 + kBlockElements) << "what comes twice would be added twice";
  EXPECT_EQ(counted_, counted);
}

TEST_F(GatherTest, WhatIsGatheredTakesWhatWasSaidBefore) {
  const auto expect_bytes = [this](std::vector<WirePiece> pieces, uint64_t of_new, uint64_t bytes) {
    const PlacedPieces message = Placed(std::move(pieces));
    const uint64_t before = counted_;
    EXPECT_EQ(PushAssembly::BytesToGather(nullptr, layout(), message), of_new);
    EXPECT_EQ(PushAssembly::BytesToGather(&push_, layout(), message), bytes);
    Gather(message);
    EXPECT_EQ(counted_ - before, bytes);
  };
  const uint64_t small = 10 * sizeof(float) + kPieceOverhead;
  // To the end of the first block, in two pieces; and a whole one.
  expect_bytes({MakePiece(1, kBlockElements - 7, {1, 2}), MakePiece(0, 0, std::vector<float>(10)),
                MakePiece(1, kBlockElements - 5, std::vector<float>(5))},
               kBytesOfBlock + small, kBytesOfBlock + small);
  const uint64_t last = 100 * sizeof(float) + kPieceOverhead;
  expect_bytes({MakePiece(1, 0, {1, 2})}, kBytesOfBlock, 0);
  expect_bytes({MakePiece(1, kBlockElements - 8, {1}), MakePiece(1, kBlockElements, {1})},
               kBytesOfBlock + last, last);
}

}  // namespace
}  // namespace millrace::ps
