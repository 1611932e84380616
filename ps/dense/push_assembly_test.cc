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

}  // namespace
}  // namespace millrace::ps
