#include "worker/training/background.h"

#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr std::chrono::minutes kPatience{1};

TEST(BackgroundTest, RunsTasksInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  Background background(Clock::Real());
  background.Add([&] { order.push_back(1); });
  background.Add([&] { order.push_back(2); });
  background.Add([&] { done.set_value(); });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(BackgroundTest, FinishesTheTaskUnderWayAndLetsGoOfTheRest) {
  std::promise<void> begun;
  bool finished = false;
  const auto held = std::make_shared<int>(0);
  {
    Background background(Clock::Real());
    background.Add([&] {
      begun.set_value();
      finished = true;
    });
    background.Add([held] {});  // Run or not, it does not stay.
    ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(BackgroundTest, TasksThatAreNotDueDoNotHoldUpOthers) {
  SimulatedClock clock;
  std::vector<int> order;
  std::promise<void> first;
  std::promise<void> done;
  Background background(&clock);
  background.AddAt(clock.Now() + absl::Minutes(2), [&] {
    order.push_back(3);
    done.set_value();
  });
  background.AddAt(clock.Now() + absl::Minutes(1), [&] { order.push_back(2); });
  background.Add([&] {
    order.push_back(1);
    first.set_value();
  });
  ASSERT_EQ(first.get_future().wait_for(kPatience), std::future_status::ready);
  clock.Advance(absl::Minutes(2));
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(BackgroundTest, TaskThatTakesLongHoldsUpTheOthersForAWhileOnly) {
  SimulatedClock clock;
  std::promise<void> begun;
  std::promise<void> end;
  std::promise<void> next;
  Background background(&clock);
  background.Add([&] {
    begun.set_value();
    end.get_future().wait_for(kPatience);
  });
  std::future<void> next_begun = next.get_future();
  background.Add([&] { next.set_value(); });
  ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  clock.Advance(Background::kPatience - absl::Nanoseconds(1));
  EXPECT_EQ(next_begun.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(next_begun.wait_for(kPatience), std::future_status::ready);
  end.set_value();
}

}  // namespace
}  // namespace millrace::worker
