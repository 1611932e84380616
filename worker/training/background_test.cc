#include "worker/training/background.h"

#include <future>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

TEST(BackgroundTest, RunsTasksInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  Background background;
  background.Add([&] { order.push_back(1); });
  background.Add([&] { order.push_back(2); });
  background.Add([&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(BackgroundTest, FinishesTheTaskUnderWayAndDropsTheRest) {
  std::promise<void> begun;
  std::promise<void> proceed;
  bool finished = false;
  const auto kept = std::make_shared<int>(0);
  {
    auto background = std::make_unique<Background>();
    background->Add([&] {
      begun.set_value();
      proceed.get_future().wait();
      finished = true;
    });
    background->Add([kept] { ADD_FAILURE() << "was run"; });
    begun.get_future().wait();
    std::future<void> destroyed = std::async(
        std::launch::async, [owned = std::move(background)]() mutable { owned.reset(); });
    // The destructor has to mark the end before the task ends for the second one to be dropped;
    // both orders are right, and only this one is checked: see below.
    proceed.set_value();
    destroyed.wait();
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace millrace::worker
