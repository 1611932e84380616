#include "coordinator/dispatch/hold_back.h"

#include <vector>

#include "coordinator/dispatch/worker_pace.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

// One that the others may have to be spared.
LeaseCandidate Slow() {
  return {.slowness = 4,
          .lease_size = 1,
          .has_leases = false,
          .since_done = absl::Seconds(8),
          .step_time = absl::Seconds(4)};
}

CombinedPace PaceOf(const std::vector<double>& slowness) {
  CombinedPace pace;
  for (const double each : slowness) pace.Add(each);
  return pace;
}

TEST(HoldBackTest, OnlySlowWorkersAreHeldBack) {
  LeaseCandidate candidate = Slow();
  EXPECT_FALSE(IsNeverHeldBack(candidate));
  for (const double slowness : {0.0, 0.5, 1.0, kSlow}) {
    candidate.slowness = slowness;
    EXPECT_TRUE(IsNeverHeldBack(candidate)) << slowness;
  }
}

TEST(HoldBackTest, WhereTheWindowIsWideLeasesAreMadeSmallerInstead) {
  LeaseCandidate candidate = Slow();
  candidate.lease_size = 2;
  EXPECT_TRUE(IsNeverHeldBack(candidate));
}

TEST(HoldBackTest, SlowWorkerIsTriedAgainAfterTheTimeOfManyOfItsSteps) {
  LeaseCandidate candidate = Slow();
  candidate.since_done = 20 * candidate.step_time;
  EXPECT_FALSE(IsNeverHeldBack(candidate));
  candidate.since_done += absl::Milliseconds(1);
  EXPECT_TRUE(IsNeverHeldBack(candidate));
  candidate.has_leases = true;
  EXPECT_FALSE(IsNeverHeldBack(candidate)) << "its step will tell";
}

TEST(HoldBackTest, SlowWorkersTakeLongerForTheirLeases) {
  EXPECT_EQ(TimeOfLeases(3, 4.0), 12.0);
  EXPECT_EQ(TimeOfLeases(3, 1.0), 3.0);
  EXPECT_EQ(TimeOfLeases(3, kSlow), 3.0) << "not slow yet";
  EXPECT_EQ(TimeOfLeases(3, 0.0), 3.0) << "not known";
  EXPECT_EQ(TimeOfLeases(3, 0.5), 3.0) << "fast";
}

TEST(HoldBackTest, WorkersTogetherDoTheStepsOfEach) {
  EXPECT_EQ(PaceOf({}).steps(), 0.0);
  EXPECT_EQ(PaceOf({1.0, 1.0}).steps(), 2.0);
  EXPECT_EQ(PaceOf({1.0, 4.0}).steps(), 1.25);
  EXPECT_EQ(PaceOf({0.0, 0.5}).steps(), 2.0) << "not known, and fast";
}

TEST(HoldBackTest, OthersWaitWhereTheyAreThroughFirst) {
  const CombinedPace others = PaceOf({1.0, 1.0});
  EXPECT_TRUE(WouldWait(others, /*left=*/4, /*takes=*/2.5));
  EXPECT_FALSE(WouldWait(others, 4, 2.0)) << "they are all through at once";
  EXPECT_FALSE(WouldWait(others, 40, 2.5)) << "there is enough to do meanwhile";
  EXPECT_TRUE(WouldWait(others, 0, 1.0)) << "they have nothing to do already";
}

TEST(HoldBackTest, WhereNobodyElseGetsOnNobodyWaits) {
  EXPECT_FALSE(WouldWait(PaceOf({}), /*left=*/0, /*takes=*/1000));
}

}  // namespace
}  // namespace millrace::coordinator
