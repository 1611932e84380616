#include "worker/training/gradient_pool.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

TEST(GradientPoolTest, SetsHaveAlignedRoomForEachVariable) {
  GradientPool pool({3, 1000, 1}, /*capacity=*/2);
  const std::shared_ptr<GradientSet> set = pool.Take();
  EXPECT_EQ(set->variable(0).size(), 3);
  EXPECT_EQ(set->variable(1).size(), 1000);
  EXPECT_EQ(set->variable(2).size(), 1);
  for (size_t v = 0; v < 3; ++v) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(set->variable(v).data()) % HostMemory::kAlignment, 0);
    for (float& x : set->variable(v)) x = 1;
  }
}

// So a device copies neighbours at once.
TEST(GradientPoolTest, EachVariableFollowsTheOneBeforeWithoutMoreThanAlignmentNeeds) {
  GradientPool pool({3, 0, 40, 16, 1}, /*capacity=*/1);
  const std::shared_ptr<GradientSet> set = pool.Take();
  const float* const begin = set->variable(0).data();
  EXPECT_EQ(set->variable(2).data(), begin + 16);
  EXPECT_EQ(set->variable(3).data(), begin + 64);
  EXPECT_EQ(set->variable(4).data(), begin + 80);
}

TEST(GradientPoolTest, WhatIsNotPushedHasNoRoom) {
  GradientPool pool({3, 0, 1}, /*capacity=*/2);
  EXPECT_TRUE(pool.Take()->variable(1).empty());
}

TEST(GradientPoolTest, SetInUseIsNotGivenOutAgain) {
  GradientPool pool({4}, /*capacity=*/2);
  std::vector<std::shared_ptr<GradientSet>> held;
  std::set<const float*> places;
  for (int i = 0; i < 4; ++i) {
    held.push_back(pool.Take());
    places.insert(held.back()->variable(0).data());
  }
  EXPECT_EQ(places.size(), 4);
}

TEST(GradientPoolTest, ReturnedSetIsUsedAgain) {
  GradientPool pool({4}, /*capacity=*/1);
  const float* place = pool.Take()->variable(0).data();
  EXPECT_EQ(pool.Take()->variable(0).data(), place);
}

TEST(GradientPoolTest, SetOutlivesThePool) {
  auto pool = std::make_unique<GradientPool>(std::vector<uint64_t>{4}, /*capacity=*/1);
  std::shared_ptr<GradientSet> set = pool->Take();
  pool.reset();
  set->variable(0)[3] = 1;
  set.reset();
}

// Counts what it has given.
class CountedMemory final : public HostMemory {
 public:
  void* Allocate(size_t bytes) override {
    if (empty) return nullptr;
    ++allocated;
    return ::operator new (bytes, std::align_val_t{64});
  }
  void Free(void* memory) noexcept override {
    ++freed;
    ::operator delete (memory, std::align_val_t{64});
  }

  std::atomic<bool> empty{false};
  std::atomic<int> allocated{0};
  std::atomic<int> freed{0};
};

// Gives one piece right behind the other.
class AdjacentMemory final : public HostMemory {
 public:
  void* Allocate(size_t bytes) override {
    void* const next = memory_ + used_;
    used_ += bytes;
    return used_ <= sizeof(memory_) ? next : nullptr;
  }
  void Free(void* /*memory*/) noexcept override {}

 private:
  alignas(HostMemory::kAlignment) char memory_[4096];
  size_t used_ = 0;
};

// A device would copy both at once, from one piece of memory.
TEST(GradientPoolTest, NoVariableSeemsToFollowThatOfAnotherSet) {
  const auto memory = std::make_shared<AdjacentMemory>();
  GradientSet first({16, 20}, memory);
  GradientSet second({16}, memory);
  ASSERT_TRUE(second.is_host_memory());
  const float* const next = first.variable(1).data() + 32;  // Aligned.
  EXPECT_NE(second.variable(0).data(), next);
}

TEST(GradientPoolTest, SetsAreOfTheDevicesMemory) {
  const auto memory = std::make_shared<CountedMemory>();
  {
    GradientPool pool({3, 0, 40}, /*capacity=*/1, memory);
    std::shared_ptr<GradientSet> first = pool.Take();
    const std::shared_ptr<GradientSet> second = pool.Take();
    EXPECT_TRUE(first->is_host_memory());
    EXPECT_EQ(memory->allocated, 2);
    first.reset();
    pool.Take();
    EXPECT_EQ(memory->allocated, 2);
    EXPECT_EQ(memory->freed, 0);
  }
  EXPECT_EQ(memory->freed, 2);
  EXPECT_FALSE(GradientPool({3}, /*capacity=*/1).Take()->is_host_memory());
}

TEST(GradientPoolTest, SetOfTheDevicesMemoryOutlivesPoolAndModel) {
  auto memory = std::make_shared<CountedMemory>();
  const std::weak_ptr<CountedMemory> watched = memory;
  auto pool = std::make_unique<GradientPool>(std::vector<uint64_t>{4}, /*capacity=*/1, memory);
  memory.reset();
  std::shared_ptr<GradientSet> set = pool->Take();
  pool.reset();
  set->variable(0)[3] = 1;
  EXPECT_EQ(watched.lock()->freed, 0);
  set.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(GradientPoolTest, SetsAreOfOrdinaryMemoryWhereTheDevicesIsNotToBeHad) {
  const auto memory = std::make_shared<CountedMemory>();
  memory->empty = true;
  {
    GradientPool pool({4}, /*capacity=*/2, memory);
    const std::shared_ptr<GradientSet> ordinary = pool.Take();
    EXPECT_FALSE(ordinary->is_host_memory());
    ordinary->variable(0)[3] = 1;
    memory->empty = false;
    EXPECT_TRUE(pool.Take()->is_host_memory());
  }
  EXPECT_EQ(memory->allocated, 1);
  EXPECT_EQ(memory->freed, 1);
}

TEST(GradientPoolTest, SetsComeBackFromOtherThreads) {
  GradientPool pool({64}, /*capacity=*/2);
  for (int i = 0; i < 100; ++i) {
    std::shared_ptr<GradientSet> set = pool.Take();
    set->variable(0)[0] = static_cast<float>(i);
    std::thread([set = std::move(set), i] { EXPECT_EQ(set->variable(0)[0], i); }).join();
  }
}

}  // namespace
}  // namespace millrace::worker
