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

TEST(BackgroundTest, FinishesTheTaskUnderWayAndLetsGoOfTheRest) {
  std::promise<void> begun;
  bool finished = false;
  const auto held = std::make_shared<int>(0);
  {
    Background background;
    background.Add([&] {
      begun.set_value();
      finished = true;
    });
    background.Add([held] {});  // Run or not, it does not stay.
    begun.get_future().wait();
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace millrace::worker
