#include "ps/block/block.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"
#include "ps/block/arena.h"
#include "ps/block/recent_peak.h"

namespace millrace::ps {
namespace {

TEST(BlockTest, ArraysAreAlignedAndApart) {
  BlockPool pool;
  const std::shared_ptr<Block> block = pool.Allocate(/*elements=*/17, /*slots=*/2);
  ASSERT_NE(block, nullptr);
  for (int i = 0; i <= 2; ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->array(i)) % 64, 0);
    std::fill_n(block->array(i), 17, static_cast<float>(i));
  }
  for (int i = 0; i <= 2; ++i) EXPECT_EQ(block->array(i)[16], static_cast<float>(i));
  EXPECT_EQ(block->values().size(), 17);
  EXPECT_EQ(block->values().data(), block->array(0));
}

TEST(BlockPoolTest, BufferIsUsedAgain) {
  BlockPool pool;
  const float* const buffer = pool.Allocate(1000, 1)->array(0);
  EXPECT_GT(pool.idle_bytes(), 0);
  EXPECT_EQ(pool.Allocate(1000, 1)->array(0), buffer);
}

constexpr size_t kElements = 1 << 18;
constexpr size_t kBytes = kElements * sizeof(float);

std::vector<std::shared_ptr<Block>> Allocate(BlockPool* pool, int count) {
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(pool->Allocate(kElements, 0));
  return blocks;
}

// While a cut is written, twice as many live; before the next one the memory was given back, and
// its pages were new again.
TEST(BlockPoolTest, KeepsWhatWasNeededOfLate) {
  SimulatedClock clock;
  BlockPool pool(/*arena=*/nullptr, &clock);
  std::vector<std::shared_ptr<Block>> blocks = Allocate(&pool, 64);
  blocks.resize(8);
  pool.GiveBackSurplus();
  EXPECT_EQ(pool.idle_bytes(), 56 * kBytes);
  for (int i = 0; i < 2; ++i) {
    clock.Advance(kPeakWindow);
    pool.GiveBackSurplus();
  }
  EXPECT_EQ(pool.idle_bytes(), 8 * kBytes) << "as many as live";
}

TEST(BlockPoolTest, KeepsALittleWhenLessIsNeededFromNowOn) {
  SimulatedClock clock;
  BlockPool pool(/*arena=*/nullptr, &clock);
  std::vector<std::shared_ptr<Block>> blocks = Allocate(&pool, 64);
  pool.Trim();
  blocks.clear();
  EXPECT_EQ(pool.idle_bytes(), kSpareBytes);
}

TEST(BlockPoolTest, BlocksMayOutliveThePool) {
  auto pool = std::make_unique<BlockPool>();
  const std::shared_ptr<Block> block = pool->Allocate(10, 0);
  pool.reset();
  block->array(0)[9] = 1;
  EXPECT_EQ(block->values()[9], 1);
}

TEST(BlockPoolTest, ThreadsShareIt) {
  BlockPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 1000; ++i) {
        const std::shared_ptr<Block> block = pool.Allocate(64, 0);
        std::fill_n(block->array(0), 64, static_cast<float>(t));
        for (const float value : block->values()) ASSERT_EQ(value, static_cast<float>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::ps
