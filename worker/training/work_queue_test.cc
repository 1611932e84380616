#include "worker/training/work_queue.h"

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Time kNow = absl::UnixEpoch();

Lease MakeLease(uint64_t id, uint64_t begin, uint64_t end, uint64_t generation = 1) {
  Lease lease;
  lease.set_lease_id(id);
  lease.set_generation(generation);
  lease.set_begin(begin);
  lease.set_end(end);
  return lease;
}

Evaluate MakeEvaluate(uint64_t id, uint64_t generation = 1) {
  Evaluate evaluate;
  evaluate.set_evaluation_id(id);
  evaluate.set_generation(generation);
  return evaluate;
}

// Does all that is in the queue; says what, in order: steps as they are, evaluations as -id.
std::vector<int> DoAll(WorkQueue* queue) {
  std::vector<int> done;
  while (const absl::optional<QueuedWork> work = queue->Next()) {
    if (const auto* step = absl::get_if<StepWork>(&*work)) {
      done.push_back(static_cast<int>(step->step));
      queue->Finish(*step);
    } else {
      const auto& evaluate = absl::get<Evaluate>(*work);
      done.push_back(-static_cast<int>(evaluate.evaluation_id()));
      queue->Finish(evaluate);
    }
  }
  EXPECT_TRUE(queue->empty());
  return done;
}

TEST(WorkQueueTest, StepsOfALeaseComeInOrder) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 5, 8), kNow);
  EXPECT_THAT(DoAll(&queue), ElementsAre(5, 6, 7));
}

TEST(WorkQueueTest, LowestStepComesFirstWhateverTheArrival) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 20, 22), kNow);
  queue.Add(MakeLease(2, 17, 18), kNow);
  EXPECT_THAT(DoAll(&queue), ElementsAre(17, 20, 21));
}

TEST(WorkQueueTest, EvaluationWaitsForTheLeasesBeforeItOnly) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 2), kNow);
  queue.Add(MakeEvaluate(1));
  queue.Add(MakeLease(2, 2, 4), kNow);
  EXPECT_THAT(DoAll(&queue), ElementsAre(0, 1, -1, 2, 3));
}

// A worker that had been given up once evaluated all that others had evaluated meanwhile.
TEST(WorkQueueTest, NewEvaluationTakesThePlaceOfTheOneBefore) {
  WorkQueue queue;
  queue.Add(MakeEvaluate(1));
  queue.Add(MakeLease(1, 0, 1), kNow);
  queue.Add(MakeEvaluate(2));
  EXPECT_FALSE(queue.Contains(MakeEvaluate(1)));
  EXPECT_THAT(DoAll(&queue), ElementsAre(0, -2));
}

// Whoever waited for the new one would have waited in vain.
TEST(WorkQueueTest, EvaluationThatHasEndedLeavesTheOneInItsPlace) {
  WorkQueue queue;
  queue.Add(MakeEvaluate(1));
  queue.Add(MakeEvaluate(2));
  queue.Finish(MakeEvaluate(1));
  EXPECT_THAT(DoAll(&queue), ElementsAre(-2));
}

TEST(WorkQueueTest, EvaluationThatComesAgainKeepsItsTurn) {
  WorkQueue queue;
  queue.Add(MakeEvaluate(1));
  queue.Add(MakeLease(1, 0, 1), kNow);
  queue.Add(MakeEvaluate(1));
  EXPECT_THAT(DoAll(&queue), ElementsAre(-1, 0));
}

TEST(WorkQueueTest, EvaluationOfAnotherGenerationIsDropped) {
  WorkQueue queue;
  queue.Add(MakeEvaluate(1, /*generation=*/1));
  queue.KeepOnly(2);
  EXPECT_TRUE(queue.empty());
}

TEST(WorkQueueTest, ClearLeavesNoEvaluationEither) {
  WorkQueue queue;
  queue.Add(MakeEvaluate(1));
  queue.Add(MakeLease(1, 0, 1), kNow);
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.Next().has_value());
}

TEST(WorkQueueTest, UpcomingStepsAreTheNearestOnes) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 20, 25), kNow);
  queue.Add(MakeLease(2, 17, 19), kNow);
  EXPECT_THAT(queue.Upcoming(4), ElementsAre(17, 18, 20, 21));
  EXPECT_THAT(queue.Upcoming(100), ElementsAre(17, 18, 20, 21, 22, 23, 24));
}

TEST(WorkQueueTest, OtherGenerationsAreDropped) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 2, /*generation=*/1), kNow);
  queue.Add(MakeEvaluate(1, /*generation=*/1));
  queue.Add(MakeLease(2, 7, 8, /*generation=*/2), kNow);
  queue.Add(MakeEvaluate(2, /*generation=*/2));
  queue.KeepOnly(2);
  EXPECT_FALSE(queue.Contains(StepWork{1, 1, 0}));
  EXPECT_THAT(DoAll(&queue), ElementsAre(7, -2));
}

TEST(WorkQueueTest, FinishingWhatWasDroppedChangesNothing) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 2), kNow);
  queue.Clear();
  queue.Add(MakeLease(1, 4, 6, /*generation=*/2), kNow);
  queue.Finish(StepWork{1, 1, 0});
  queue.Finish(MakeEvaluate(9));
  EXPECT_THAT(DoAll(&queue), ElementsAre(4, 5));
}

TEST(WorkQueueTest, RemovedLeaseTakesAllItsSteps) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 5), kNow);
  queue.Add(MakeLease(2, 9, 10), kNow);
  queue.Remove(1);
  EXPECT_THAT(DoAll(&queue), ElementsAre(9));
}

TEST(WorkQueueTest, LeasesSayWhereTheyStand) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 5), kNow);
  queue.Finish(StepWork{1, 1, 0});
  ASSERT_EQ(queue.Leases().size(), 1);
  EXPECT_EQ(queue.Leases()[0].lease_id, 1);
  EXPECT_EQ(queue.Leases()[0].step, 1);
}

TEST(WorkQueueTest, SeveralStepsAreUnderWay) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 2), kNow);
  queue.Add(MakeLease(2, 5, 6), kNow);
  queue.Begin(StepWork{1, 1, 0});
  EXPECT_THAT(queue.Upcoming(9), ElementsAre(1, 5));
  ASSERT_EQ(queue.IdleLeases().size(), 1);
  EXPECT_EQ(queue.IdleLeases()[0].lease_id, 2);
  queue.Begin(StepWork{1, 1, 1});
  queue.Begin(StepWork{2, 1, 5});
  EXPECT_FALSE(queue.Next().has_value());
  EXPECT_TRUE(queue.Contains(StepWork{1, 1, 0}));
  EXPECT_TRUE(queue.Finish(StepWork{1, 1, 0}));
  EXPECT_FALSE(queue.Contains(StepWork{1, 1, 0}));
  EXPECT_TRUE(queue.Finish(StepWork{1, 1, 1}));
  EXPECT_TRUE(queue.Finish(StepWork{2, 1, 5}));
  EXPECT_TRUE(queue.empty());
}

// A lease says up to where it is done: a gap would be lost.
TEST(WorkQueueTest, StepIsNotFinishedBeforeThoseBeforeIt) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 3), kNow);
  queue.Begin(StepWork{1, 1, 0});
  queue.Begin(StepWork{1, 1, 1});
  EXPECT_FALSE(queue.Finish(StepWork{1, 1, 1}));
  EXPECT_EQ(queue.Leases()[0].step, 0);
}

TEST(WorkQueueTest, StepThatIsBegunAgainIsNextAgain) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 3), kNow);
  queue.Begin(StepWork{1, 1, 0});
  queue.BeginAgain(StepWork{1, 1, 0});
  EXPECT_THAT(DoAll(&queue), ElementsAre(0, 1, 2));
}

TEST(WorkQueueTest, NothingMoreOfALeaseIsBegun) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 0, 3), kNow);
  queue.BeginNoMore(1);
  EXPECT_FALSE(queue.Next().has_value());
  EXPECT_TRUE(queue.Contains(StepWork{1, 1, 0}));
}

TEST(WorkQueueTest, LeasesThatAreNotBegunInTimeExpire) {
  WorkQueue queue;
  for (uint64_t id = 1; id <= 3; ++id) {
    Lease lease = MakeLease(id, 10 * id, 10 * id + 2);
    if (id < 3) lease.mutable_duration()->set_seconds(60);
    queue.Add(lease, kNow);
  }
  queue.Begin(StepWork{1, 1, 10});
  EXPECT_THAT(queue.TakeExpired(kNow + absl::Seconds(59)), IsEmpty());
  const std::vector<StepWork> expired = queue.TakeExpired(kNow + absl::Seconds(60));
  ASSERT_EQ(expired.size(), 1);
  EXPECT_EQ(expired[0].lease_id, 2);
  EXPECT_EQ(expired[0].step, 20);
  EXPECT_THAT(queue.Upcoming(9), ElementsAre(11, 30, 31));
}

TEST(WorkQueueTest, LeasesThatAreRenewedLastLonger) {
  WorkQueue queue;
  Lease lease = MakeLease(1, 0, 2);
  lease.mutable_duration()->set_seconds(60);
  queue.Add(lease, kNow);
  queue.Renew(kNow + absl::Seconds(30));
  EXPECT_THAT(queue.TakeExpired(kNow + absl::Seconds(89)), IsEmpty());
  EXPECT_EQ(queue.TakeExpired(kNow + absl::Seconds(90)).size(), 1);
}

TEST(WorkQueueTest, LeaseWithoutStepsIsIgnored) {
  WorkQueue queue;
  queue.Add(MakeLease(1, 5, 5), kNow);
  EXPECT_TRUE(queue.empty());
  EXPECT_THAT(queue.Upcoming(3), IsEmpty());
}

}  // namespace
}  // namespace millrace::worker
