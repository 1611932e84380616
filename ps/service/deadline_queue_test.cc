#include "ps/service/deadline_queue.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::ElementsAre;

TEST(DeadlineQueueTest, CallsInTheOrderOfTheirTimes) {
  SimulatedClock clock;
  std::vector<int> calls;
  std::promise<void> done;
  DeadlineQueue queue(&clock);
  queue.Add(clock.Now() + absl::Seconds(3), [&] { done.set_value(); });
  queue.Add(clock.Now() + absl::Seconds(2), [&] { calls.push_back(2); });
  queue.Add(clock.Now() + absl::Seconds(1), [&] { calls.push_back(1); });
  clock.Advance(absl::Seconds(3));
  done.get_future().wait();
  EXPECT_THAT(calls, ElementsAre(1, 2));
}

// The queue once missed the first call that was added to it while its thread waited for none.
TEST(DeadlineQueueTest, WakesForACallThatIsAddedToAnEmptyQueue) {
  DeadlineQueue queue(Clock::Real());
  for (int i = 0; i < 100; ++i) {
    std::promise<void> done;
    queue.Add(Clock::Real()->Now(), [&] { done.set_value(); });
    done.get_future().wait();
  }
}

TEST(DeadlineQueueTest, CancelledCallIsNotMade) {
  SimulatedClock clock;
  bool called = false;
  std::promise<void> done;
  DeadlineQueue queue(&clock);
  const DeadlineQueue::Key key = queue.Add(clock.Now() + absl::Seconds(1), [&] { called = true; });
  queue.Add(clock.Now() + absl::Seconds(2), [&] { done.set_value(); });
  queue.Cancel(key);
  queue.Cancel(key);
  clock.Advance(absl::Seconds(2));
  done.get_future().wait();
  EXPECT_FALSE(called);
}

// A server that stopped wrote its shards while a call still worked on one.
TEST(DeadlineQueueTest, StopWaitsForTheCallThatIsUnderWay) {
  std::promise<void> begun;
  std::promise<void> go_on;
  bool ended = false;
  DeadlineQueue queue(Clock::Real());
  queue.Add(Clock::Real()->Now(), [&] {
    begun.set_value();
    go_on.get_future().wait();
    ended = true;
  });
  begun.get_future().wait();
  std::thread stop([&] { queue.Stop(); });
  go_on.set_value();
  stop.join();
  EXPECT_TRUE(ended);
  queue.Add(Clock::Real()->Now(), [] { ADD_FAILURE() << "nothing begins any more"; });
}

TEST(DeadlineQueueTest, ForgetsWhatIsNotDueWhenItEnds) {
  SimulatedClock clock;
  bool called = false;
  std::make_unique<DeadlineQueue>(&clock)->Add(clock.Now() + absl::Seconds(1),
                                               [&] { called = true; });
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace millrace::ps
