#include "client/arrivals.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

class ArrivalsTest : public ::testing::Test {
 protected:
  ArrivalsTest() {
    for (const char* name : {"worker-0", "worker-1", "worker-2"}) arrivals_.Expect(name);
  }

  absl::Status AwaitAll() { return arrivals_.AwaitAll(clock_.Now() + absl::Seconds(1)); }
  absl::Status LookOnce() { return arrivals_.AwaitAll(clock_.Now()); }

  SimulatedClock clock_;
  Arrivals arrivals_{&clock_};
};

TEST_F(ArrivalsTest, EachIsWaitedFor) {
  arrivals_.Joined("worker-2");
  std::thread others([this] {
    arrivals_.Joined("worker-0");
    arrivals_.Joined("worker-0");
    arrivals_.Joined("worker-1");
  });
  EXPECT_TRUE(AwaitAll().ok());
  others.join();
  arrivals_.Joined("worker-1");
  EXPECT_TRUE(LookOnce().ok());
}

TEST_F(ArrivalsTest, ThoseThatAreMissingInTheEndAreNamed) {
  arrivals_.Joined("worker-1");
  EXPECT_EQ(LookOnce(), absl::DeadlineExceededError(
                            "the coordinator of this process has not welcomed worker-0, worker-2"));
}

TEST_F(ArrivalsTest, ARefusalEndsTheWaiting) {
  std::thread refused([this] { arrivals_.Ended("worker-1", absl::InvalidArgumentError("name")); });
  EXPECT_EQ(AwaitAll(), absl::InvalidArgumentError("name"));
  refused.join();
}

TEST_F(ArrivalsTest, WhatHasLostItsDeviceIsNotWaitedFor) {
  arrivals_.Joined("worker-0");
  arrivals_.Joined("worker-1");
  arrivals_.Ended("worker-2", absl::OkStatus());
  EXPECT_TRUE(AwaitAll().ok());
}

}  // namespace
}  // namespace millrace::client
