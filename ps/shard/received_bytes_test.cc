#include "ps/shard/received_bytes.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

// Complete pushes did not count: any number of them could wait for their turns.
TEST(ReceivedBytesTest, PiecesCountUntilNobodyHasThem) {
  ReceivedBytes received;
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

TEST(ReceivedBytesTest, PiecesMayOutliveTheirCounter) {
  PushPieces counted;
  {
    ReceivedBytes received;
    counted = received.Count(std::make_shared<const std::vector<WirePiece>>(1), 100);
  }
  EXPECT_EQ(counted->size(), 1);
}

}  // namespace
}  // namespace millrace::ps
