#include "worker/training/gradient_pool.h"

#include <cstdint>
#include <memory>
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
    EXPECT_EQ(reinterpret_cast<uintptr_t>(set->variable(v).data()) % 64, 0);
    for (float& x : set->variable(v)) x = 1;
  }
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
