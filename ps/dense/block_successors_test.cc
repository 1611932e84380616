#include "ps/dense/block_successors.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps/block/block.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

constexpr size_t kBlockSize = 1 << 12;

// One block with a slot, whose elements are all 0 at first.
class BlockSuccessorsTest : public ::testing::Test {
 protected:
  BlockSuccessorsTest() {
    std::shared_ptr<Block> first = pool_.Allocate(kBlockSize, /*slots=*/1);
    std::fill_n(first->array(0), kBlockSize, 0.0f);
    std::fill_n(first->array(1), kBlockSize, 0.0f);
    newest_ = std::move(first);
  }

  // The next version: `count` elements from `begin` on are `value`, and their slots -value.
  // Returns where it stands.
  const float* Change(size_t begin, size_t count, float value) {
    std::shared_ptr<Block> block = successors_.Copy(0, newest_);
    EXPECT_TRUE(std::equal(block->array(0), block->array(0) + kBlockSize, newest_->array(0)));
    EXPECT_TRUE(std::equal(block->array(1), block->array(1) + kBlockSize, newest_->array(1)));
    std::fill_n(block->array(0) + begin, count, value);
    std::fill_n(block->array(1) + begin, count, -value);
    newest_ = successors_.Publish(0, newest_, std::move(block), {{begin, count}});
    return newest_->array(0);
  }

  // A version that is made otherwise.
  void ChangeAll(float value) {
    std::shared_ptr<Block> block = successors_.Spare(0);
    if (block == nullptr) block = pool_.Allocate(kBlockSize, /*slots=*/1);
    std::fill_n(block->array(0), kBlockSize, value);
    std::fill_n(block->array(1), kBlockSize, -value);
    newest_ = std::move(block);
  }

  BlockPool pool_;
  BlockSuccessors successors_{1, &pool_};
  std::shared_ptr<const Block> newest_;
};

TEST_F(BlockSuccessorsTest, TwoBuffersTakeTurnsWhereNobodyReads) {
  const float* const first = Change(3, 2, 1);
  const float* const second = Change(0, 1, 2);
  EXPECT_NE(first, second) << "the one before is read until the new one is published";
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Change(5, 3, static_cast<float>(i)), first);
    EXPECT_EQ(Change(4, 2, static_cast<float>(100 + i)), second);
    EXPECT_EQ(pool_.idle_bytes(), 0u) << "nothing was copied as a whole";
  }
  EXPECT_THAT(newest_->values().subspan(0, 9), ElementsAre(2, 0, 0, 1, 109, 109, 9, 9, 0));
}

TEST_F(BlockSuccessorsTest, WhatIsReadStaysWhatItIs) {
  Change(0, 1, 1);
  const std::shared_ptr<const Block> read = newest_;
  const std::vector<float> before(read->values().begin(), read->values().end());
  for (int i = 0; i < 20; ++i) EXPECT_NE(Change(i, 2, 7), read->values().data());
  EXPECT_EQ(std::vector<float>(read->values().begin(), read->values().end()), before);
}

// Its changes since are no longer known, and it goes back to the pool.
TEST_F(BlockSuccessorsTest, BufferThatComesBackLateIsUsedNoMore) {
  Change(0, 1, 1);
  std::shared_ptr<const Block> read = newest_;
  for (int i = 0; i < 20; ++i) Change(i, 1, 3);
  read.reset();
  for (int i = 0; i < 20; ++i) Change(i + 20, 1, 4);  // Each compares the copy with its base.
}

// Its version has the number of one that was made of another base.
TEST_F(BlockSuccessorsTest, BufferOfAnEarlierHistoryIsUsedNoMore) {
  Change(0, 1, 1);
  std::shared_ptr<const Block> read = newest_;
  ChangeAll(5);
  Change(1, 1, 2);
  read.reset();
  Change(2, 1, 3);  // Each compares the copy with its base.
  Change(3, 1, 4);
}

TEST_F(BlockSuccessorsTest, LargeChangesAreCopiedRightly) {
  for (size_t i = 0; i < 10; ++i) Change(i, kBlockSize / 2, static_cast<float>(i));
  for (size_t i = 0; i < 10; ++i) Change(i, 1, static_cast<float>(i));
}

TEST_F(BlockSuccessorsTest, VersionsThatAreMadeOtherwiseBeginAnew) {
  for (int i = 0; i < 10; ++i) {
    Change(1, 1, 1);
    Change(2, 1, 2);
    Change(3, 1, 3);
    ChangeAll(5);
    if (i % 2 == 0) Change(4, 1, 4);
  }
  // Back at an earlier one, which is not the newest here.
  const std::shared_ptr<const Block> earlier = newest_;
  Change(7, 1, 7);
  Change(8, 1, 8);
  newest_ = earlier;
  Change(9, 1, 9);
  Change(10, 1, 10);
  Change(11, 1, 11);
}

// Many short runs take as much memory as what they are of.
TEST_F(BlockSuccessorsTest, ManyRunsAreCopiedRightly) {
  std::vector<ElementRange> runs;
  for (uint64_t i = 0; i < kBlockSize; i += 2) runs.push_back({i, 1});
  for (int version = 0; version < 5; ++version) {
    std::shared_ptr<Block> block = successors_.Copy(0, newest_);
    EXPECT_TRUE(std::equal(block->array(0), block->array(0) + kBlockSize, newest_->array(0)));
    for (uint64_t i = 0; i < kBlockSize; i += 2) block->array(0)[i] += 1;
    newest_ = successors_.Publish(0, newest_, std::move(block), runs);
  }
  EXPECT_EQ(newest_->values()[2], 5);
  EXPECT_EQ(newest_->values()[3], 0);
}

TEST_F(BlockSuccessorsTest, NothingIsKeptWhenNoVersionFollows) {
  Change(0, 1, 1);
  Change(0, 1, 2);
  const size_t before = pool_.idle_bytes();
  successors_.Stop();
  const size_t idle = pool_.idle_bytes();
  EXPECT_GT(idle, before) << "the version before went back to the pool";
  newest_.reset();
  EXPECT_GT(pool_.idle_bytes(), idle) << "so did the newest one";
}

TEST_F(BlockSuccessorsTest, BlocksMayOutliveIt) {
  auto successors = std::make_unique<BlockSuccessors>(1, &pool_);
  std::shared_ptr<const Block> block =
      successors->Publish(0, newest_, successors->Copy(0, newest_), {{0, 1}});
  successors.reset();
  EXPECT_EQ(block->values()[0], 0);
  block.reset();
}

}  // namespace
}  // namespace millrace::ps
