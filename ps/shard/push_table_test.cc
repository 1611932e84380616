#include "ps/shard/push_table.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

BlockLayout MakeLayout() {
  ShardSpec spec;
  spec.add_slices()->mutable_slice()->set_length(10);
  return *BlockLayout::Create(spec);
}

PushPieces MakePieces(uint64_t offset, size_t count) {
  const std::vector<float> values(count);
  std::vector<WirePiece> pieces;
  pieces.push_back({0, offset, FloatSlices({grpc::Slice(values.data(), count * sizeof(float))})});
  return std::make_shared<const std::vector<WirePiece>>(std::move(pieces));
}

TEST(PushAssemblyTest, IsCompleteWhenEachElementHasArrived) {
  const BlockLayout layout = MakeLayout();
  PushAssembly push(/*push_id=*/1, /*step=*/2, /*examples=*/3);
  ASSERT_TRUE(push.Add(layout, /*stream=*/1, MakePieces(6, 4), /*keep=*/true).ok());
  EXPECT_FALSE(push.complete(layout));
  ASSERT_TRUE(push.Add(layout, /*stream=*/2, MakePieces(0, 6), /*keep=*/true).ok());
  EXPECT_TRUE(push.complete(layout));
  EXPECT_EQ(push.pieces().size(), 2);
}

TEST(PushAssemblyTest, RefusesAnElementThatComesTwice) {
  const BlockLayout layout = MakeLayout();
  PushAssembly push(1, 2, 3);
  ASSERT_TRUE(push.Add(layout, 1, MakePieces(0, 6), true).ok());
  EXPECT_EQ(push.Add(layout, 1, MakePieces(5, 5), true).code(), absl::StatusCode::kInvalidArgument);
}

// It was refused, which ended the job: a message was delivered twice.
TEST(PushAssemblyTest, MessageThatComesTwiceCountsOnce) {
  const BlockLayout layout = MakeLayout();
  PushAssembly push(1, 2, 3);
  ASSERT_TRUE(push.Add(layout, 1, MakePieces(0, 6), true).ok());
  ASSERT_TRUE(push.Add(layout, 1, MakePieces(0, 6), true).ok());
  EXPECT_EQ(push.pieces().size(), 1);
  EXPECT_FALSE(push.complete(layout));
  ASSERT_TRUE(push.Add(layout, 1, MakePieces(6, 4), true).ok());
  EXPECT_TRUE(push.complete(layout));
}

TEST(PushAssemblyTest, RefusesPiecesWithoutData) {
  const BlockLayout layout = MakeLayout();
  PushAssembly push(1, 2, 3);
  EXPECT_EQ(push.Add(layout, 1, MakePieces(3, 0), true).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PushAssemblyTest, CountsWithoutKeeping) {
  const BlockLayout layout = MakeLayout();
  PushAssembly push(1, 2, 3);
  ASSERT_TRUE(push.Add(layout, 1, MakePieces(0, 10), /*keep=*/false).ok());
  EXPECT_TRUE(push.complete(layout));
  EXPECT_TRUE(push.pieces().empty());
}

TEST(PushTableTest, StreamTakesItsUnfinishedPushesWithIt) {
  const BlockLayout layout = MakeLayout();
  PushTable table;
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(table.Start(id, id, 1, id % 2)
                    ->Add(layout, /*stream=*/id % 2, MakePieces(0, 1), true)
                    .ok());
  }
  EXPECT_EQ(table.started_by(1), 2);
  EXPECT_EQ(table.VoidCarriedBy(1).size(), 2);
  EXPECT_EQ(table.started_by(1), 0);
  EXPECT_EQ(table.started_by(0), 1);
  EXPECT_EQ(table.size(), 1);
  EXPECT_TRUE(table.voided(1));
  EXPECT_FALSE(table.voided(2));
  EXPECT_EQ(table.Find(3), nullptr);
}

TEST(PushTableTest, RemembersHowMuchOfAVoidedPushHadArrived) {
  const BlockLayout layout = MakeLayout();
  PushTable table;
  ASSERT_TRUE(table.Start(1, 1, 1, 1)->Add(layout, 1, MakePieces(0, 7), /*keep=*/true).ok());
  table.Carried(1, absl::UnixEpoch());
  EXPECT_EQ(table.arrived_of_voided(1), 0u);
  EXPECT_EQ(table.VoidStalled(absl::UnixEpoch() + absl::Seconds(31), absl::Seconds(30)).size(), 1u);
  EXPECT_EQ(table.arrived_of_voided(1), 7u);
  EXPECT_EQ(table.Void(1), nullptr);
  EXPECT_EQ(table.arrived_of_voided(1), 7u);
}

TEST(PushTableTest, RemembersVoidedPushesForAWhile) {
  PushTable table;
  for (uint64_t id = 0; id < 100'000; ++id) {
    EXPECT_EQ(table.Void(id), nullptr);
    EXPECT_TRUE(table.voided(id));
  }
  for (const uint64_t id : {0, 1}) EXPECT_FALSE(table.voided(id)) << "or it would grow for ever";
  EXPECT_TRUE(table.voided(99'000));
}

}  // namespace
}  // namespace millrace::ps
