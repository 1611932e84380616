// How long leases last, and who is given what is late.
#include <string>
#include <vector>

#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/dispatch/dispatcher_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(DispatcherTest, StepOfAWorkerRenewsAllItsLeases) {
  SetWorkers({{1, 2}});
  Start("a", 1, 1);
  SetWorkers({{1, 2}, {2, 2}});
  clock_.Advance(absl::Seconds(40));
  Done(0, 0);
  outbox_.Take();
  clock_.Advance(absl::Seconds(40));
  EXPECT_EQ(dispatcher_.Tick("a").trouble, "");
  EXPECT_THAT(outbox_.Take(), IsEmpty()) << "the second lease was only waiting for its turn";
}

// Steps that took longer than a lease were once computed twice, each of them.
TEST_F(DispatcherTest, LeasesOfASlowWorkerLastLonger) {
  SetWorkers({{1, 1}});
  Start("a", 1, 0);
  clock_.Advance(absl::Seconds(90));
  EXPECT_NE(dispatcher_.Tick("a").trouble, "");
  Done(0, 0);
  const size_t next = outbox_.leases.size() - 1;
  EXPECT_EQ(outbox_.leases[next].begin(), 1u);
  EXPECT_EQ(outbox_.leases[next].duration().seconds(), 4 * 90);
  clock_.Advance(absl::Seconds(90));
  EXPECT_EQ(dispatcher_.Tick("a").trouble, "");
}

// Whoever had a step when its process was stopped once held up all others for a minute.
TEST_F(DispatcherTest, LeasesThatAreOutFollowThePaceOfTheSteps) {
  SetWorkers({{1, 1, "worker-1"}, {2, 1, "worker-2"}});
  Start("a", 1, 1);
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 2));
  dispatcher_.SetBarrier("a", 2);
  clock_.Advance(absl::Milliseconds(10));
  Done(0, 0);
  dispatcher_.Tick("a");
  outbox_.Take();
  clock_.Advance(absl::Seconds(5));
  EXPECT_THAT(dispatcher_.Tick("a").trouble, testing::HasSubstr("step 1 from worker-2 for 5s"));
}

TEST_F(DispatcherTest, LateStepIsComputedTwiceWhereNothingElseIsLeft) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}});
  Start("a", 1, 2);
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 2, 3));
  dispatcher_.SetBarrier("a", 3);
  clock_.Advance(absl::Milliseconds(10));
  Done(0, 0);
  Done(1, 1);
  outbox_.Take();
  EXPECT_EQ(dispatcher_.Tick("a").next, clock_.Now() + absl::Milliseconds(240));
  clock_.Advance(absl::Milliseconds(240));
  dispatcher_.Tick("a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [2,3)"));
  clock_.Advance(absl::Seconds(1));
  dispatcher_.Tick("a");
  EXPECT_THAT(outbox_.Take(), IsEmpty()) << "no step is out more than twice";
  EXPECT_TRUE(Done(3, 2)->first);
  EXPECT_FALSE(Done(2, 2)->first) << "the slower one is ignored";
  EXPECT_TRUE(dispatcher_.GetProgress("a")->at_barrier);
  dispatcher_.SetBarrier("a", 100);
  EXPECT_THAT(outbox_.workers, ElementsAre(1, 2, 3, 1, 1, 2, 3)) << "all slots are free again";
}

TEST_F(DispatcherTest, LateStepsGoToWorkersThatDoNotHaveThemOneForEachFreeSlot) {
  SetWorkers({{1, 3}});
  Start("a", 1, 2);
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 1, 1));
  dispatcher_.SetBarrier("a", 3);
  clock_.Advance(absl::Milliseconds(10));
  Done(0, 0);
  outbox_.Take();
  clock_.Advance(absl::Seconds(1));
  dispatcher_.Tick("a");
  EXPECT_THAT(outbox_.Take(), IsEmpty()) << "the worker with the free slot has both";
  SetWorkers({{1, 3}, {2, 1}});
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: route a@1", "2: lease a@1 [1,2)"));
  EXPECT_TRUE(Done(3, 1)->first);
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [2,3)"));
}

TEST_F(DispatcherTest, StepIsComputedOnceWhileTheWorkerReportsOthers) {
  SetWorkers({{1, 1}});
  Start("a", 1, 7);  // A lease of four.
  SetWorkers({{1, 1}, {2, 1}});
  dispatcher_.SetBarrier("a", 4);
  outbox_.Take();
  for (uint64_t step = 0; step < 4; ++step) {
    clock_.Advance(absl::Milliseconds(200));
    dispatcher_.Tick("a");
    EXPECT_THAT(outbox_.Take(), IsEmpty());
    Done(0, step);
  }
}

TEST_F(DispatcherTest, StepOfAnyJobComesBeforeASecondCopy) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 1);
  dispatcher_.SetBarrier("a", 2);
  clock_.Advance(absl::Milliseconds(10));
  Done(0, 0);
  Start("b", 1, 0);
  EXPECT_THAT(outbox_.workers, ElementsAre(1, 2, 1));
  EXPECT_EQ(outbox_.leases[2].job_id(), "b") << "nothing of a is late yet";
  clock_.Advance(absl::Seconds(1));
  Done(2, 0);
  EXPECT_EQ(outbox_.leases.back().job_id(), "b");
}

TEST_F(DispatcherTest, LeasesAreSmallWhereJobsWaitForTheirTurns) {
  Start("a", 1, 99);
  SetWorkers({{1, 1}});
  EXPECT_EQ(outbox_.leases[0].end(), 32u);
  for (uint64_t step = 0; step < 31; ++step) {
    clock_.Advance(absl::Milliseconds(100));
    Done(0, step);
  }
  Start("b", 1, 99);
  clock_.Advance(absl::Milliseconds(100));
  Done(0, 31);
  ASSERT_EQ(outbox_.leases[1].job_id(), "b");
  GiveBack(1, absl::StatusCode::kOk);
  ASSERT_EQ(outbox_.leases[2].job_id(), "a");
  EXPECT_EQ(outbox_.leases[2].end() - outbox_.leases[2].begin(), 5u) << "half a second";
}

// A fast job's lease once expired behind a slow job's step, on the worker that computes one at a
// time.
TEST_F(DispatcherTest, LeaseWaitsForItsTurnBehindAnotherJobsStep) {
  SetWorkers({{1, 2}});
  Start("slow", 1, 0);
  clock_.Advance(absl::Seconds(30));
  Done(0, 0);
  Start("fast", 1, 0);
  clock_.Advance(absl::Milliseconds(10));
  Done(2, 0);
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(dispatcher_.Tick("fast").trouble, "");
}

TEST_F(DispatcherTest, LeaseLastsWhileItsWorkerDoesALongLeaseOfAnotherJob) {
  SetWorkers({{1, 2}});
  Start("a", 1, 0);
  clock_.Advance(absl::Milliseconds(10));
  Done(0, 0);
  Start("b", 1, 99);
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 1, 1));
  ASSERT_EQ(outbox_.leases[2].end(), 25u);
  for (uint64_t step = 0; step < 25; ++step) {
    clock_.Advance(absl::Milliseconds(100));
    EXPECT_EQ(dispatcher_.Tick("a").trouble, "") << "before step " << step << " of b";
    ASSERT_TRUE(Done(2, step)->first);
  }
  outbox_.Take();
  EXPECT_TRUE(Done(1, 1)->first);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [2,3)"));
}

// A worker that could not reach a job's servers once kept its step, and held up the job, for as
// long as it reported steps of another job.
TEST_F(DispatcherTest, StepsOfOneJobDoNotKeepALeaseOfAnother) {
  SetWorkers({{1, 2, "worker-1"}});
  Start("a", 1, 0);
  clock_.Advance(absl::Milliseconds(10));
  Done(0, 0);
  Start("b", 1, 0);
  dispatcher_.SetWorkers({{1, 2, "worker-1"}, {2, 1, "worker-2"}});
  Prepare(2, "a");
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 1, 1));
  std::vector<std::string> late;
  std::string trouble;
  for (uint64_t step = 0; step < 99 && trouble.empty(); ++step) {
    outbox_.Take();
    clock_.Advance(absl::Milliseconds(50));
    trouble = dispatcher_.Tick("a").trouble;
    if (outbox_.workers.back() == 2 && late.empty()) late = outbox_.Take();
    const size_t newest_of_b =
        outbox_.workers.back() == 2 ? outbox_.workers.size() - 2 : outbox_.workers.size() - 1;
    ASSERT_TRUE(Done(step == 0 ? 2 : newest_of_b, step)->first);
  }
  EXPECT_THAT(late, ElementsAre("2: lease a@1 [1,2)"));
  EXPECT_THAT(trouble, testing::HasSubstr("nothing was heard of step 1 from worker-1 for 2s"));
}

// With the time between steps of any jobs for a measure, a slow job beside a fast one would lose
// each of its leases.
TEST_F(DispatcherTest, SlowJobKeepsItsLeasesBesideAFastOne) {
  SetWorkers({{1, 2}});
  Start("slow", 1, 0);
  Start("fast", 1, 0);
  size_t slow = 0;
  size_t fast = 1;
  for (uint64_t second = 1; second < 90; ++second) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(dispatcher_.Tick("slow").trouble, "") << second;
    if (second % 30 == 0) {
      ASSERT_TRUE(Done(slow, second / 30 - 1)->first);
      slow = outbox_.leases.size() - 1;
    }
    ASSERT_TRUE(Done(fast, second - 1)->first);
    fast = outbox_.leases.size() - 1;
    ASSERT_EQ(outbox_.leases[slow].job_id(), "slow");
    ASSERT_EQ(outbox_.leases[fast].job_id(), "fast");
  }
}

}  // namespace
}  // namespace millrace::coordinator
