#include "client/outage.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OutageTest : public ::testing::Test {
 protected:
  Outage MakeOutage(absl::Duration patience) {
    return Outage({.address = "trainer:7070",
                   .what = "GetJob",
                   .patience = patience,
                   .on_wait = [this](const std::string& text) { notices_.push_back(text); },
                   .clock = &clock_});
  }

  // Fails, and moves the clock to the next attempt; returns how long that is.
  absl::Duration Fail(Outage* outage) {
    const absl::Time before = clock_.Now();
    const auto next =
        outage->NextAttempt(absl::UnavailableError("connection refused"), FailedBy::kConnection);
    EXPECT_TRUE(next.ok()) << next.status();
    clock_.Advance(*next - before);
    return *next - before;
  }

  SimulatedClock clock_;
  std::vector<std::string> notices_;
};

TEST_F(OutageTest, PausesGrowToTwoSeconds) {
  Outage outage = MakeOutage(absl::Minutes(1));
  std::vector<absl::Duration> pauses;
  for (int i = 0; i < 7; ++i) pauses.push_back(Fail(&outage));
  EXPECT_THAT(pauses, ElementsAre(absl::Milliseconds(100), absl::Milliseconds(200),
                                  absl::Milliseconds(400), absl::Milliseconds(800),
                                  absl::Milliseconds(1600), absl::Seconds(2), absl::Seconds(2)));
  EXPECT_THAT(notices_,
              ElementsAre("waits for the coordinator at trainer:7070: connection refused"));
}

TEST_F(OutageTest, GivesUpWhenPatienceIsOver) {
  Outage outage = MakeOutage(absl::Milliseconds(250));
  EXPECT_EQ(Fail(&outage), absl::Milliseconds(100));
  EXPECT_EQ(Fail(&outage), absl::Milliseconds(150));  // The last attempt is at the deadline.
  const auto next =
      outage.NextAttempt(absl::UnavailableError("connection refused"), FailedBy::kConnection);
  EXPECT_EQ(next.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(next.status().ToString(),
              HasSubstr("the coordinator at trainer:7070 did not answer GetJob within 250ms "
                        "(connection refused); check"));
}

// A coordinator that answered that servers of the job are away was reported as not answering.
TEST_F(OutageTest, WhatTheCoordinatorAnswersIsNoOutageOfTheCoordinator) {
  Outage outage = MakeOutage(absl::Milliseconds(50));
  const absl::Status answer = absl::UnavailableError("ps-1 is away");
  EXPECT_TRUE(outage.NextAttempt(answer, FailedBy::kCoordinator).ok());
  EXPECT_THAT(notices_, ElementsAre("waits, as the coordinator says: ps-1 is away"));
  clock_.Advance(absl::Milliseconds(50));
  EXPECT_EQ(outage.NextAttempt(answer, FailedBy::kCoordinator).status(),
            absl::UnavailableError("ps-1 is away (the answer to GetJob of the coordinator at "
                                   "trainer:7070 for 50ms)"));
}

TEST_F(OutageTest, AfterAnAnswerTheNextFailureIsANewOutage) {
  Outage outage = MakeOutage(absl::Seconds(1));
  Fail(&outage);
  outage.Over();
  EXPECT_EQ(outage.remaining(), absl::InfiniteDuration());
  clock_.Advance(absl::Hours(5));
  EXPECT_EQ(Fail(&outage), absl::Milliseconds(100));
  EXPECT_EQ(outage.remaining(), absl::Milliseconds(900));
  EXPECT_EQ(notices_.size(), 2u);
}

}  // namespace
}  // namespace millrace::client
