#include "ps/service/pull_pieces.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "common/wire/encoding.h"
#include "gtest/gtest.h"
#include "ps/block/block.h"
#include "ps/dense/shard_plan.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_test_util.h"
#include "ps/shard/spare_memory.h"

namespace millrace::ps {
namespace {

using ::millrace::testing::MakeSpec;
using ::millrace::testing::Newest;

class PullPiecesTest : public ::testing::Test {
 protected:
  PullPiecesTest() {
    ShardPlan plan = *PlanShard(MakeSpec({1000}));
    ShardContents contents;
    contents.state = *MakeInitialState(plan, &pool_);
    shard_ = std::make_unique<Shard>(std::move(plan), /*generation=*/1, std::move(contents), &pool_,
                                     /*root=*/nullptr, &spare_);
  }

  absl::StatusOr<OutgoingPiece> PieceAs(Encoding::Kind encoding,
                                        const WantedRows* wanted = nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(
        const absl::optional<OutgoingPiece> piece,
        PieceOf(shard_.get(), 0, Newest(shard_.get())->blocks[0], encoding, wanted));
    return piece.value();
  }

  BlockPool pool_;
  SpareMemory spare_{3000};
  std::unique_ptr<Shard> shard_;
};

TEST_F(PullPiecesTest, FloatsLieWhereTheyAre) {
  const absl::StatusOr<OutgoingPiece> piece = PieceAs(Encoding::FLOAT32);
  ASSERT_TRUE(piece.ok()) << piece.status();
  EXPECT_EQ(static_cast<const void*>(piece->values.bytes()),
            Newest(shard_.get())->blocks[0]->values().data());
  EXPECT_EQ(spare_.used(), 0);
}

TEST_F(PullPiecesTest, RoundedOnesAreCountedAndBounded) {
  absl::StatusOr<OutgoingPiece> first = PieceAs(Encoding::FLOAT16);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(spare_.used(), 2000);
  const absl::StatusOr<OutgoingPiece> second = PieceAs(Encoding::BFLOAT16);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(PieceAs(Encoding::FLOAT16).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(PieceAs(Encoding::FLOAT32).ok()) << "it takes none";
  first->owner = nullptr;
  EXPECT_TRUE(PieceAs(Encoding::FLOAT16).ok());
}

TEST_F(PullPiecesTest, RowsAreCopiedAndCountedInEveryEncoding) {
  WantedRows wanted;
  wanted.set_width(100);
  wanted.add_rows(2);
  wanted.add_rows(9);
  const absl::StatusOr<OutgoingPiece> floats = PieceAs(Encoding::FLOAT32, &wanted);
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(floats->values.size(), 200u);
  EXPECT_EQ(spare_.used(), 800);
  const absl::StatusOr<OutgoingPiece> halves = PieceAs(Encoding::FLOAT16, &wanted);
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_EQ(halves->rows->encoding(), Encoding::FLOAT16);
  EXPECT_EQ(spare_.used(), 1200);
}

}  // namespace
}  // namespace millrace::ps
