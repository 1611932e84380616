#include "ps/cut/lane.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

using ::testing::HasSubstr;

// What a lane is busy with until it is let go on.
class Obstacle {
 public:
  void Block(Lane* lane) {
    lane->Post("waiting", [this] {
      begun_.set_value();
      go_on_.get_future().wait();
      return absl::OkStatus();
    });
    begun_.get_future().wait();
  }
  void GoOn() { go_on_.set_value(); }

 private:
  std::promise<void> begun_;
  std::promise<void> go_on_;
};

TEST(LaneTest, CallReturnsWhatItWasToldToRunAndNeedsNoDeadline) {
  Lane lane(Clock::Real());
  EXPECT_TRUE(lane.Call("nothing", absl::InfiniteFuture(), [] { return absl::OkStatus(); }).ok());
  const absl::Status status =
      lane.Call("an error", absl::InfiniteFuture(), [] { return absl::AbortedError("as it is"); });
  EXPECT_EQ(status, absl::AbortedError("as it is"));
}

TEST(LaneTest, CallThatHasNotBegunInTimeIsForgottenAndNoOther) {
  SimulatedClock clock;
  std::string made;
  Obstacle obstacle;
  Lane lane(&clock);
  const auto make = [&made](char letter) {
    return [&made, letter] {
      made += letter;
      return absl::OkStatus();
    };
  };
  obstacle.Block(&lane);
  lane.Post("a", make('a'));
  const absl::Status late = lane.Call("b", clock.Now(), make('b'));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("b took too long"));
  EXPECT_THAT(std::string(late.message()), HasSubstr("busy with waiting"));
  lane.Post("c", make('c'));
  obstacle.GoOn();
  EXPECT_TRUE(lane.Call("d", absl::InfiniteFuture(), make('d')).ok());
  EXPECT_EQ(made, "acd");
}

TEST(LaneTest, CallThatNobodyWantsAnyMoreIsForgotten) {
  bool made = false;
  Obstacle obstacle;
  Lane lane(Clock::Real());
  obstacle.Block(&lane);
  const absl::Status status = lane.Call(
      "a call", absl::InfiniteFuture(),
      [&made] {
        made = true;
        return absl::OkStatus();
      },
      [] { return absl::CancelledError("nobody waits"); });
  EXPECT_EQ(status, absl::CancelledError("nobody waits"));
  obstacle.GoOn();
  EXPECT_TRUE(lane.Call("another", absl::InfiniteFuture(), [] { return absl::OkStatus(); }).ok());
  EXPECT_FALSE(made);
}

// It may be a shard's memory.
TEST(LaneTest, WhatACallHeldIsFreeWhenItIsMadeThoughNoOtherFollows) {
  std::promise<void> freed;
  SimulatedClock clock;
  Lane lane(&clock);
  std::shared_ptr<int> held(new int(1), [&freed](int* number) {
    delete number;
    freed.set_value();
  });
  lane.Post("a call", [held] { return absl::OkStatus(); });
  held.reset();
  EXPECT_EQ(freed.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
}

}  // namespace
}  // namespace millrace::ps
