#include "ps/shard/counted_bytes.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "ps/dense/push_assembly.h"

namespace millrace::ps {
namespace {

// Complete pushes did not count: any number of them could wait for their turns.
TEST(CountedBytesTest, PiecesCountUntilNobodyHasThem) {
  CountedBytes received;
  const auto pieces = std::make_shared<const std::vector<WirePiece>>(3);
  const std::weak_ptr<const std::vector<WirePiece>> watched = pieces;
  PushPieces counted = received.Count(pieces, 100);
  PushPieces others = received.Count(std::make_shared<const std::vector<WirePiece>>(), 20);
  EXPECT_EQ(counted->size(), 3);
  EXPECT_EQ(received.bytes(), 120);
  PushPieces work = counted;
  counted.reset();
  others.reset();
  EXPECT_EQ(received.bytes(), 100);
  work.reset();
  EXPECT_EQ(received.bytes(), 0);
  EXPECT_EQ(watched.use_count(), 1) << "the test's own";
}

TEST(CountedBytesTest, PiecesMayOutliveTheirCounter) {
  PushPieces counted;
  {
    CountedBytes received;
    counted = received.Count(std::make_shared<const std::vector<WirePiece>>(1), 100);
  }
  EXPECT_EQ(counted->size(), 1);
}

TEST(CountedBytesTest, RoomCountsUntilNobodyHasIt) {
  CountedBytes copies;
  CountedBytes::Room room = copies.Reserve(100);
  const CountedBytes::Room same = room;
  room.reset();
  EXPECT_EQ(copies.bytes(), 100);
  std::shared_ptr<char[]> bytes = copies.Count(std::shared_ptr<char[]>(new char[7]), 7);
  EXPECT_EQ(copies.bytes(), 107);
  bytes.reset();
  EXPECT_EQ(copies.bytes(), 100);
}

}  // namespace
}  // namespace millrace::ps
