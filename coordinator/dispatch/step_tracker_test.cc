#include "coordinator/dispatch/step_tracker.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const absl::Time kLater = kStart + absl::Minutes(1);

StepTracker Asynchronous(uint64_t total, uint32_t staleness) {
  StepTracker tracker({.total_steps = total, .replicas = 0, .staleness_bound = staleness});
  tracker.Reset(/*generation=*/1, AppliedSet());
  return tracker;
}

StepTracker Synchronous(uint64_t total, uint32_t replicas) {
  StepTracker tracker({.total_steps = total, .replicas = replicas, .staleness_bound = 0});
  tracker.Reset(/*generation=*/1, AppliedSet());
  return tracker;
}

// Takes steps one at a time until there are no more; returns them with their leases.
std::vector<StepTracker::Lease> TakeAll(StepTracker& tracker, uint64_t worker = 1) {
  std::vector<StepTracker::Lease> leases;
  while (auto lease = tracker.Take(worker, 1, kStart, kLater)) leases.push_back(*lease);
  return leases;
}

std::vector<uint64_t> Begins(const std::vector<StepTracker::Lease>& leases) {
  std::vector<uint64_t> begins;
  for (const StepTracker::Lease& lease : leases) begins.push_back(lease.begin);
  return begins;
}

AppliedSet StepsBelow(uint64_t watermark) {
  AppliedSet set;
  for (uint64_t step = 0; step < watermark; ++step) set.Insert(step);
  return set;
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepTrackerTest, StalenessBoundLimitsHowFarStepsRunAhead) {
  StepTracker tracker = Asynchronous(100, 2);
  const auto leases = TakeAll(tracker);
  EXPECT_THAT(Begins(leases), ElementsAre(0, 1, 2));
  tracker.Done(leases[1].id, 1, kLater);
  EXPECT_THAT(Begins(TakeAll(tracker)), IsEmpty());
  tracker.Done(leases[0].id, 0, kLater);
  EXPECT_THAT(Begins(TakeAll(tracker)), ElementsAre(3, 4));
}

TEST(StepTrackerTest, StalenessZeroIsOneStepAtATime) {
  StepTracker tracker = Asynchronous(3, 0);
  EXPECT_THAT(Begins(TakeAll(tracker)), ElementsAre(0));
}

TEST(StepTrackerTest, SynchronousVersionWaitsForTheOneBefore) {
  StepTracker tracker = Synchronous(7, 3);
  const auto leases = TakeAll(tracker);
  EXPECT_THAT(Begins(leases), ElementsAre(0, 1, 2));
  for (size_t i = 0; i < 2; ++i) tracker.Done(leases[i].id, i, kLater);
  EXPECT_THAT(TakeAll(tracker), IsEmpty());
  tracker.Done(leases[2].id, 2, kLater);
  EXPECT_THAT(Begins(TakeAll(tracker)), ElementsAre(3, 4, 5));
}

TEST(StepTrackerTest, BarrierHoldsUntilItIsMoved) {
  StepTracker tracker = Asynchronous(10, 9);
  tracker.SetBarrier(2);
  const auto leases = TakeAll(tracker);
  EXPECT_THAT(Begins(leases), ElementsAre(0, 1));
  EXPECT_FALSE(tracker.AtBarrier());
  for (const auto& lease : leases) tracker.Done(lease.id, lease.begin, kLater);
  EXPECT_TRUE(tracker.AtBarrier());
  EXPECT_THAT(TakeAll(tracker), IsEmpty());
  tracker.SetBarrier(10);
  EXPECT_EQ(TakeAll(tracker).size(), 8u);
}

TEST(StepTrackerTest, RangesAreConsecutiveAndStopAtTheLimit) {
  StepTracker tracker = Asynchronous(100, 4);
  const auto first = tracker.Take(1, 3, kStart, kLater);
  const auto second = tracker.Take(2, 3, kStart, kLater);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->end, 3u);
  EXPECT_EQ(second->begin, 3u);
  EXPECT_EQ(second->end, 5u);
}

TEST(StepTrackerTest, ReturnedStepsGoOutFirstLowestFirst) {
  StepTracker tracker = Asynchronous(100, 9);
  const auto a = tracker.Take(1, 2, kStart, kLater);
  const auto b = tracker.Take(2, 2, kStart, kLater);
  tracker.Done(a->id, 0, kLater);
  EXPECT_TRUE(tracker.GiveBack(b->id));
  EXPECT_TRUE(tracker.GiveBack(a->id));
  EXPECT_FALSE(tracker.GiveBack(a->id));
  const auto again = tracker.Take(3, 9, kStart, kLater);
  EXPECT_EQ(again->begin, 1u);
  EXPECT_EQ(again->end, 10u);
}

TEST(StepTrackerTest, ExpiredLeaseGoesToAnotherAndALateResultStillCounts) {
  StepTracker tracker = Asynchronous(100, 0);
  const auto first = tracker.Take(1, 1, kStart, kLater);
  EXPECT_EQ(tracker.NextExpiry(), kLater);
  tracker.Expire(kLater - absl::Seconds(1));
  EXPECT_FALSE(tracker.Take(2, 1, kStart, kLater));
  tracker.Expire(kLater);
  EXPECT_EQ(tracker.NextExpiry(), absl::InfiniteFuture());
  const auto second = tracker.Take(2, 1, kStart, kLater);
  EXPECT_EQ(second->begin, 0u);
  EXPECT_EQ(tracker.LeasesOf(1), 1u) << "the slow worker gets no more work";
  EXPECT_TRUE(tracker.Done(first->id, 0, kLater));
  EXPECT_FALSE(tracker.Done(second->id, 0, kLater));
  EXPECT_EQ(tracker.LeasesOf(1), 0u);
  EXPECT_EQ(tracker.LeasesOf(2), 0u);
}

TEST(StepTrackerTest, LeaseLastsFromWhenItsWorkerWasHeardOrItWasTaken) {
  StepTracker tracker = Asynchronous(100, 9);
  tracker.Take(1, 1, kStart, kLater);
  tracker.Renew(1, {}, absl::Seconds(2));
  EXPECT_EQ(tracker.NextExpiry(), kStart + absl::Seconds(2)) << "also to less than before";
  tracker.Renew(1, {.here = kStart + absl::Seconds(1)}, absl::Seconds(2));
  EXPECT_EQ(tracker.NextExpiry(), kStart + absl::Seconds(3));
}

TEST(StepTrackerTest, StepsOfOtherJobsMakeALeaseLongerByTheWorkersPatience) {
  StepTracker tracker = Asynchronous(100, 9);
  tracker.Take(1, 1, kStart, kLater);
  StepTracker::Heard heard{.anywhere = kStart + absl::Seconds(3), .patience = absl::Seconds(5)};
  tracker.Renew(1, heard, absl::Seconds(2));
  EXPECT_EQ(tracker.NextExpiry(), kStart + absl::Seconds(5));
  heard.anywhere = kStart + absl::Hours(1);
  tracker.Renew(1, heard, absl::Seconds(2));
  EXPECT_EQ(tracker.NextExpiry(), kStart + absl::Seconds(7));
  heard.here = kStart + absl::Seconds(10);
  tracker.Renew(1, heard, absl::Seconds(2));
  EXPECT_EQ(tracker.NextExpiry(), kStart + absl::Seconds(17));
}

TEST(StepTrackerTest, StepThatIsOutTwiceIsFreeWhenBothLeasesHaveEnded) {
  StepTracker tracker = Asynchronous(100, 1);
  const auto first = tracker.Take(1, 2, kStart, kLater);
  ASSERT_EQ(tracker.OutOnce().size(), 1u);
  const auto second = tracker.TakeAgain(tracker.OutOnce()[0], 2, 2, kStart, kLater);
  EXPECT_EQ(second.begin, 0u);
  EXPECT_EQ(second.end, 2u);
  EXPECT_THAT(tracker.OutOnce(), IsEmpty());
  EXPECT_TRUE(tracker.GiveBack(first->id));
  EXPECT_FALSE(tracker.CanTake()) << "the second worker has them";
  EXPECT_TRUE(tracker.Done(second.id, 0, kLater));
  tracker.Expire(kLater);
  const auto again = tracker.Take(3, 1, kLater, kLater + absl::Seconds(1));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->begin, 1u);
}

TEST(StepTrackerTest, SecondLeaseOfAStepIsAsLongAsItWasMade) {
  StepTracker tracker = Asynchronous(100, 3);
  const auto first = tracker.Take(1, 4, kStart, kLater);
  const auto second =
      tracker.TakeAgain(tracker.OutOnce().at(0), 2, 2, kLater, kLater + absl::Minutes(1));
  EXPECT_EQ(second.begin, 0u);
  EXPECT_EQ(second.end, 2u);
  EXPECT_EQ(tracker.OutTwice(), 2u);
  EXPECT_EQ(tracker.OutOnce().at(0).step, 2u);
  EXPECT_EQ(tracker.TakenAt(2, second.id, 0), kLater);
  tracker.GiveBack(first->id);
  EXPECT_EQ(tracker.NextExpiry(), kLater + absl::Minutes(1));
}

// Its step is free then, or another worker has it, and no third one may get it.
TEST(StepTrackerTest, StepOfAnExpiredLeaseIsFreedOnce) {
  StepTracker tracker = Asynchronous(100, 0);
  const auto expired = tracker.Take(1, 1, kStart, kLater);
  tracker.Expire(kLater);
  EXPECT_THAT(tracker.OutOnce(), IsEmpty());
  const auto lease = tracker.Take(2, 1, kLater, kLater + absl::Minutes(1));
  ASSERT_TRUE(lease);
  ASSERT_EQ(tracker.OutOnce().size(), 1u);
  EXPECT_EQ(tracker.OutOnce()[0].worker, 2u);
  EXPECT_TRUE(tracker.GiveBack(expired->id));
  EXPECT_FALSE(tracker.CanTake());
  EXPECT_TRUE(tracker.Done(lease->id, 0, kLater));
  EXPECT_THAT(Begins(TakeAll(tracker, 3)), ElementsAre(1));
}

TEST(StepTrackerTest, TellsTheLowestStepThatIsOutAndWhatIsOutToAWorker) {
  StepTracker tracker = Asynchronous(100, 2);
  TakeAll(tracker, 1);
  ASSERT_TRUE(tracker.LowestPending());
  EXPECT_EQ(tracker.LowestPending()->step, 0u);
  EXPECT_FALSE(tracker.LowestExpired());
  EXPECT_EQ(tracker.OutTo(1).size(), 3u);
  EXPECT_THAT(tracker.OutTo(2), IsEmpty());
}

TEST(StepTrackerTest, ResultRenewsTheLease) {
  StepTracker tracker = Asynchronous(100, 9);
  const auto lease = tracker.Take(1, 3, kStart, kLater);
  tracker.Done(lease->id, 0, kLater + absl::Minutes(1));
  tracker.Expire(kLater);
  EXPECT_EQ(tracker.Take(2, 1, kStart, kLater)->begin, 3u);
}

TEST(StepTrackerTest, DeadWorkersStepsAreFree) {
  StepTracker tracker = Asynchronous(100, 3);
  tracker.Take(1, 1, kStart, kLater);
  tracker.Take(2, 1, kStart, kLater);
  tracker.Take(1, 1, kStart, kLater);
  tracker.GiveBackAll(1);
  EXPECT_EQ(tracker.LeasesOf(1), 0u);
  EXPECT_EQ(tracker.LeasesOf(2), 1u);
  EXPECT_THAT(Begins(TakeAll(tracker, 3)), ElementsAre(0, 2, 3));
}

TEST(StepTrackerTest, ResetRunsExactlyTheMissingSteps) {
  StepTracker tracker = Asynchronous(10, 4);
  TakeAll(tracker);
  AppliedSet done = StepsBelow(2);
  done.Insert(4);
  tracker.Reset(2, done);
  EXPECT_THAT(Begins(TakeAll(tracker)), ElementsAre(2, 3, 5, 6));
}

// That of the generation before must not be taken for a second lease of the step.
TEST(StepTrackerTest, StepThatWasOutTwiceBeforeAResetIsFreeWhenItsOnlyLeaseEnds) {
  StepTracker tracker = Asynchronous(10, 0);
  tracker.Take(1, 1, kStart, kLater);
  tracker.TakeAgain(tracker.OutOnce().at(0), 2, 1, kStart, kLater);
  EXPECT_EQ(tracker.OutTwice(), 1u);
  tracker.Reset(2, AppliedSet());
  EXPECT_EQ(tracker.OutTwice(), 0u);
  const auto lease = tracker.Take(1, 1, kStart, kLater);
  EXPECT_EQ(tracker.OutOnce().size(), 1u);
  EXPECT_TRUE(tracker.GiveBack(lease->id));
  EXPECT_THAT(Begins(TakeAll(tracker)), ElementsAre(0));
}

// Each step below it was written down, under the dispatcher's lock: no job got on any more, until
// there was no memory left.
TEST(StepTrackerTest, StepThatIsDoneFarAboveTheOthersCostsNothing) {
  constexpr uint64_t kFar = uint64_t{1} << 40;
  StepTracker tracker = Asynchronous(uint64_t{1} << 50, 3);
  AppliedSet done = StepsBelow(2);
  done.Insert(3);
  done.Insert(kFar);
  tracker.Reset(2, done);
  EXPECT_EQ(tracker.next(), 2u);
  const auto leases = TakeAll(tracker);
  EXPECT_THAT(Begins(leases), ElementsAre(2, 4, 5));
  EXPECT_FALSE(tracker.Done(leases[0].id, kFar - 1, kLater)) << "it was never handed out";
  tracker.SetBarrier(7);
  tracker.GiveBack(leases[1].id);
  tracker.Done(leases[0].id, 2, kLater);
  EXPECT_EQ(tracker.done().watermark(), 4u);
  EXPECT_THAT(Begins(TakeAll(tracker)), ElementsAre(4, 6));
}

// A report that was under way when a shard lost the step must not count as done afterwards.
TEST(StepTrackerTest, ReportsOfAnOlderGenerationAreIgnored) {
  StepTracker tracker = Asynchronous(10, 4);
  const auto old_lease = tracker.Take(1, 1, kStart, kLater);
  tracker.Reset(2, AppliedSet());
  const auto lease = tracker.Take(1, 1, kStart, kLater);
  EXPECT_FALSE(tracker.Done(old_lease->id, 0, kLater));
  EXPECT_FALSE(tracker.GiveBack(old_lease->id));
  EXPECT_EQ(tracker.done().size(), 0u);
  EXPECT_TRUE(tracker.Done(lease->id, 0, kLater));
}

TEST(StepTrackerTest, ReportsOfStepsNeverHandedOutAreIgnored) {
  StepTracker tracker = Asynchronous(10, 4);
  const auto lease = tracker.Take(1, 1, kStart, kLater);
  EXPECT_FALSE(tracker.Done(lease->id, 7, kLater));
  tracker.GiveBackAll(1);
  EXPECT_FALSE(tracker.Done(lease->id, 1, kLater)) << "whatever is said of a lease that has ended";
  EXPECT_EQ(tracker.done().size(), 0u);
}

TEST(StepTrackerTest, LeaseIsOfItsWorkerUntilItEnds) {
  using Claim = StepTracker::Claim;
  StepTracker tracker = Asynchronous(10, 4);
  const auto lease = tracker.Take(1, 1, kStart, kLater);
  EXPECT_EQ(tracker.ClaimOf(1, lease->id), Claim::kOwn);
  EXPECT_EQ(tracker.ClaimOf(2, lease->id), Claim::kNone);
  EXPECT_EQ(tracker.ClaimOf(1, lease->id + 1), Claim::kNone) << "it was never made";
  EXPECT_EQ(tracker.ClaimOf(1, lease->id - 1), Claim::kNone);
  tracker.Expire(kLater);
  EXPECT_EQ(tracker.ClaimOf(1, lease->id), Claim::kOwn);
  tracker.GiveBackAll(1);
  EXPECT_EQ(tracker.ClaimOf(2, lease->id), Claim::kEnded) << "it may be worker 1, come back";
  tracker.Reset(2, AppliedSet());
  EXPECT_EQ(tracker.ClaimOf(1, lease->id), Claim::kNone);
}

TEST(StepTrackerTest, ReportsOfStepsOfOtherLeasesAreIgnored) {
  StepTracker tracker = Asynchronous(10, 4);
  const auto first = tracker.Take(1, 2, kStart, kLater);
  const auto second = tracker.Take(2, 2, kStart, kLater);
  EXPECT_FALSE(tracker.Done(first->id, 2, kLater));
  EXPECT_FALSE(tracker.TakenAt(1, first->id, 2));
  EXPECT_FALSE(tracker.TakenAt(2, first->id, 0));
  EXPECT_EQ(tracker.TakenAt(1, first->id, 0), kStart);
  EXPECT_TRUE(tracker.Done(second->id, 2, kLater));
}

TEST(StepTrackerTest, LeaseSizeFollowsTheWindow) {
  EXPECT_EQ(Asynchronous(1000, 4).LeaseSize(4), 1u);
  EXPECT_EQ(Asynchronous(1000, 99).LeaseSize(5), 10u);
  EXPECT_EQ(Asynchronous(100000, 99999).LeaseSize(5), 32u);
  EXPECT_EQ(Synchronous(1000, 16).LeaseSize(2), 4u);
  EXPECT_EQ(Synchronous(1000, 16).LeaseSize(0), 8u);
}

// Random schedules against a plain model of what each worker does.
class RandomSchedule {
 public:
  RandomSchedule(uint32_t seed, const StepRules& rules)
      : random_(seed), rules_(rules), tracker_(rules) {
    tracker_.Reset(++generation_, AppliedSet());
    tracker_.SetBarrier(barrier_ = std::min<uint64_t>(rules.total_steps, 11));
  }

  void Run() {
    for (int i = 0; applied_.size() < rules_.total_steps; ++i) {
      ASSERT_LT(i, 200'000) << "no progress after step " << tracker_.done().watermark();
      ASSERT_NO_FATAL_FAILURE(Act());
    }
    EXPECT_EQ(tracker_.done().watermark(), rules_.total_steps);
    EXPECT_FALSE(tracker_.Take(1, 1, kStart, kLater));
  }

 private:
  struct Held {
    uint64_t worker = 0;
    StepTracker::Lease lease;
    uint64_t next = 0;
  };

  uint64_t Draw(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  void Act() {
    switch (Draw(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Take();
      case 8:
        return GiveBackOne();
      case 9:
        tracker_.Expire(now_ += absl::Seconds(Draw(30)));
        return;
      case 10:
        if (Draw(20) == 0) Crash();
        return;
      case 11:
        if (Draw(10) == 0) LoseSteps();
        return;
      default:
        return Report();
    }
  }

  void Take() {
    const uint64_t worker = Draw(4);
    const auto lease = tracker_.Take(worker, 1 + Draw(4), now_, now_ + absl::Minutes(1));
    if (!lease) return;
    ASSERT_LT(lease->begin, lease->end);
    for (uint64_t step = lease->begin; step < lease->end; ++step) CheckMayGo(step);
    held_.push_back({worker, *lease, lease->begin});
  }

  // The rules, word for word.
  void CheckMayGo(uint64_t step) {
    ASSERT_LT(step, rules_.total_steps);
    uint64_t before = 0;  // All steps below it must be done.
    if (rules_.replicas > 0) {
      before = step / rules_.replicas * rules_.replicas;
    } else if (step > rules_.staleness_bound) {
      before = step - rules_.staleness_bound;
    }
    ASSERT_LT(step, barrier_);
    for (uint64_t needed = 0; needed < before; ++needed) {
      ASSERT_TRUE(applied_.contains(needed)) << "step " << step << " before step " << needed;
    }
    ASSERT_FALSE(applied_.contains(step)) << "step " << step << " is done";
  }

  void Report() {
    if (held_.empty()) return;
    const size_t i = Draw(held_.size());
    Held& held = held_[i];
    const bool first = tracker_.Done(held.lease.id, held.next, now_ + absl::Minutes(1));
    ASSERT_EQ(first, applied_.insert(held.next).second);
    if (++held.next == held.lease.end) held_.erase(held_.begin() + i);
    if (tracker_.AtBarrier()) {
      tracker_.SetBarrier(barrier_ = std::min(rules_.total_steps, barrier_ + 11));
    }
  }

  void GiveBackOne() {
    if (held_.empty()) return;
    const size_t i = Draw(held_.size());
    tracker_.GiveBack(held_[i].lease.id);
    held_.erase(held_.begin() + i);
  }

  void Crash() {
    const uint64_t worker = Draw(4);
    tracker_.GiveBackAll(worker);
    std::erase_if(held_, [&](const Held& held) { return held.worker == worker; });
    EXPECT_EQ(tracker_.LeasesOf(worker), 0u);
  }

  // A shard comes back without some of the newest steps.
  void LoseSteps() {
    for (int i = 0; i < 3 && !applied_.empty(); ++i) {
      applied_.erase(std::prev(applied_.end()));
      if (Draw(2) == 0 && !applied_.empty()) applied_.erase(std::prev(applied_.end()));
    }
    AppliedSet done;
    for (uint64_t step : applied_) done.Insert(step);
    const std::vector<Held> stale = std::move(held_);
    held_.clear();
    tracker_.Reset(++generation_, done);
    for (const Held& held : stale) {
      ASSERT_FALSE(tracker_.Done(held.lease.id, held.next, now_)) << "void lease";
    }
  }

  std::mt19937 random_;
  const StepRules rules_;
  StepTracker tracker_;
  uint64_t generation_ = 0;
  uint64_t barrier_ = 0;
  absl::Time now_ = kStart;
  std::set<uint64_t> applied_;
  std::vector<Held> held_;
};

TEST(StepTrackerTest, RandomSchedulesKeepTheRulesAndFinish) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint32_t kind = seed % 6;
    StepRules rules{.total_steps = 100 + seed % 7, .replicas = 0, .staleness_bound = 0};
    if (kind < 3) {
      rules.staleness_bound = kind * 4;
    } else {
      rules.replicas = kind - 2;
    }
    RandomSchedule(seed, rules).Run();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Their numbers would have run into the generation after 2^32, and no result was taken any more.
TEST(StepTrackerTest, LeasesOfAGenerationAreUsedUp) {
  StepTracker tracker({.total_steps = 100, .staleness_bound = 9, .most_leases = 3});
  tracker.Reset(1, AppliedSet());
  for (int lease = 0; lease < 3; ++lease) {
    EXPECT_FALSE(tracker.LeasesAreUsedUp());
    ASSERT_TRUE(tracker.Take(1, 1, kStart, kLater).has_value());
  }
  EXPECT_TRUE(tracker.LeasesAreUsedUp());
  EXPECT_TRUE(tracker.Take(1, 1, kStart, kLater).has_value()) << "until another generation begins";
  tracker.Reset(2, AppliedSet());
  EXPECT_FALSE(tracker.LeasesAreUsedUp());
}

}  // namespace
}  // namespace millrace::coordinator
